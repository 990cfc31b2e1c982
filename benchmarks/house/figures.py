"""Counts folders, modules, names, lines, and ``Any`` in signatures.

``python -m benchmarks.house.figures [CHECKOUT ...]`` prints one column for each folder with a
commit of trainfeed; without any, for this one. A line of code is a line with a token that is
neither a comment nor part of a docstring. Faces (``__init__.py``) count as lines only.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parents[2]
ROOMS: Final = ("include/trainfeed", "operators", "dags", "plugins")
SMALL, LARGE = 40, 300
MOST_IN_FOLDER: Final = 15
Function = ast.FunctionDef | ast.AsyncFunctionDef


def main() -> None:
    """Print the table, a row for each figure and a column for each checkout."""
    columns = [figures(Path(name)) for name in sys.argv[1:] or [str(HERE)]]
    for name in columns[0]:
        print(f"| {name} | {' | '.join(str(column[name]) for column in columns)} |")


def figures(checkout: Path) -> dict[str, object]:
    """Return figure → value for one checkout."""
    paths = [path for room in ROOMS for path in sorted((checkout / room).rglob("*.py"))]
    modules = [path for path in paths if path.name != "__init__.py"]
    lines = {path: len(path.read_text().splitlines()) for path in modules}
    trees = {path: ast.parse(path.read_text()) for path in paths}
    folders = Counter(path.parent.relative_to(checkout) for path in modules)
    functions = [node for tree in trees.values() for node in functions_of(tree)]
    library = [path for path in modules if "trainfeed" in path.parts]
    classes = Counter(
        node.name
        for path in library
        for node in ast.walk(trees[path])
        if isinstance(node, ast.ClassDef)
    )
    names = Counter(path.name for path in library)
    full = {str(folder): count for folder, count in folders.items() if count > MOST_IN_FOLDER}
    return {
        "modules": len(modules),
        "folders": len(folders),
        "modules in the largest folder": max(folders.values()),
        f"folders above {MOST_IN_FOLDER} modules": ", ".join(
            f"{name.removeprefix('include/trainfeed/')} {count}" for name, count in full.items()
        )
        or "none",
        f"modules below {SMALL} lines": sum(count < SMALL for count in lines.values()),
        f"modules above {LARGE} lines": sum(count > LARGE for count in lines.values()),
        "lines": sum(len(path.read_text().splitlines()) for path in paths),
        "lines of code": sum(lines_of_code(path.read_text(), trees[path]) for path in paths),
        "functions": len(functions),
        "signatures with Any": sum(map(says_any, functions)),
        "`dict[str, Any]`": sum(path.read_text().count("dict[str, Any]") for path in paths),
        "file names of more than one module": sum(count > 1 for count in names.values()),
        "class names defined more than once": sum(count > 1 for count in classes.values()),
    }


def functions_of(tree: ast.AST) -> Iterator[Function]:
    """Yield all functions and methods."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def says_any(function: Function) -> bool:
    """Return whether an annotation of a parameter or of the result contains ``Any``."""
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [argument for argument in (arguments.vararg, arguments.kwarg) if argument]
    annotations = [argument.annotation for argument in every] + [function.returns]
    return any(
        isinstance(node, ast.Name) and node.id == "Any"
        for annotation in annotations
        if annotation is not None
        for node in ast.walk(annotation)
    )


def lines_of_code(text: str, tree: ast.AST) -> int:
    """Return how many lines have code."""
    docstrings = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | Function) and node.body
        for line in docstring_lines(node.body[0])
    }
    no_code = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    no_code |= {tokenize.ENCODING, tokenize.ENDMARKER}
    return len(
        {
            line
            for token in tokenize.generate_tokens(io.StringIO(text).readline)
            if token.type not in no_code
            for line in range(token.start[0], token.end[0] + 1)
        }
        - docstrings
    )


def docstring_lines(first: ast.stmt) -> range:
    """Return the lines of a docstring; none, if the statement is not one."""
    if (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    ):
        return range(first.lineno, (first.end_lineno or first.lineno) + 1)
    return range(0)


if __name__ == "__main__":
    main()
