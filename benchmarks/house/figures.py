"""Counts what the product weighs: code, imports, files, rooms, and what a start of it loads.

``python -m benchmarks.house.figures [CHECKOUT ...] [--walk]`` prints one column for each folder
with a commit of trainfeed; without any, for this one. A line of code is neither blank, comment nor
docstring. A start is a fresh process, of which the median of five is shown: processor seconds, and
the modules of trainfeed that it has loaded. ``--walk`` adds the files that one record passes
(``benchmarks.house.walk``), which takes a minute.
"""

from __future__ import annotations

import argparse
import ast
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.house.walk import walk

HERE: Final = Path(__file__).resolve().parents[2]
PRODUCT: Final = ("include/trainfeed", "operators", "dags", "plugins")
LONG: Final = 900
FOR_USERS: Final = ("trainfeed.compat.", "trainfeed.publicsets.sets.")
STARTS: Final = {
    "`from trainfeed.loader import DataLoader`": "from trainfeed.loader import DataLoader",
    "numpy, pyarrow and pyarrow.compute alone": "import numpy, pyarrow, pyarrow.compute",
    "`import trainfeed`": "import trainfeed",
    "`trainfeed --help`": "import sys; sys.argv[1:] = ['--help']; COMMAND",
    "`trainfeed ls`": "import sys; sys.argv[1:] = ['ls', '--root', ROOT]; COMMAND",
}
COMMAND: Final = (
    "import contextlib, io; from trainfeed.cli import main\n"
    "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit): main()"
)
COST: Final = """
import resource, sys
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime, sum(n.split(".")[0] == "trainfeed" for n in sys.modules))
"""


def main() -> None:
    """Print the table, a row for each figure and a column for each checkout."""
    parser = argparse.ArgumentParser()
    parser.add_argument("checkouts", nargs="*", type=Path, default=[HERE])
    parser.add_argument("--walk", action="store_true")
    options = parser.parse_args()
    columns = [figures(each.resolve(), with_walk=options.walk) for each in options.checkouts]
    for name in columns[0]:
        print(f"| {name} | {' | '.join(str(column[name]) for column in columns)} |")


def figures(checkout: Path, *, with_walk: bool) -> dict[str, object]:
    """Return figure → value for one checkout."""
    paths = [path for room in PRODUCT for path in sorted((checkout / room).rglob("*.py"))]
    texts = {path: path.read_text() for path in paths}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    code = {path: code_lines(texts[path], tree) for path, tree in trees.items()}
    lists = sum(len(code[path] & list_lines(tree)) for path, tree in trees.items())
    lines = sum(map(len, code.values()))
    library = checkout / "include" / "trainfeed"
    rooms = [path for path in library.iterdir() if path.suffix == ".py" or has_code(path)]
    found: dict[str, object] = {
        "lines of code": lines,
        "of them imports and export lists": f"{lists} ({lists / lines:.1%})",
        "files": len(paths),
        "rooms and modules below `trainfeed`": sum(path.stem[:2] != "__" for path in rooms),
        "modules that at most one other uses": len(used_by_one(checkout, trees)),
        f"modules above {LONG} lines": sum(len(t.splitlines()) > LONG for t in texts.values()),
        "functions": sum(
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            for tree in trees.values()
            for node in ast.walk(tree)
        ),
    }
    with tempfile.TemporaryDirectory() as folder:
        found |= {name: start(checkout, program, folder) for name, program in STARTS.items()}
        if with_walk:
            found["files on the walk of a record"] = len(
                {path for path, _ in walk(checkout, Path(folder))}
            )
    return found


def has_code(folder: Path) -> bool:
    """Return whether a folder is a room: it has a face."""
    return (folder / "__init__.py").is_file()


def code_lines(text: str, tree: ast.Module) -> set[int]:
    """Return the numbers of the lines that have code."""
    docstrings = {line for node in ast.walk(tree) for line in docstring_lines(node)}
    return {
        number
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.strip().startswith("#") and number not in docstrings
    }


def docstring_lines(node: ast.AST) -> range:
    """Return the lines of the docstring of a module, class or function."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        first = node.body[0] if node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            return range(first.lineno, (first.end_lineno or first.lineno) + 1)
    return range(0)


def list_lines(tree: ast.Module) -> set[int]:
    """Return the lines at the top of a module that import, or list names for others."""
    return {
        line
        for node in top_statements(tree.body)
        if isinstance(node, ast.Import | ast.ImportFrom) or is_list(node)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def top_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements of a module, those under ``if TYPE_CHECKING`` with their ``if`` included."""
    for node in body:
        yield node
        if isinstance(node, ast.If):
            yield from node.body


def is_list(node: ast.stmt) -> bool:
    """Return whether a statement is an export list, or the table of a face on demand."""
    names = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return any(isinstance(name, ast.Name) and name.id in {"__all__", "_HOMES"} for name in names)


def used_by_one(checkout: Path, trees: dict[Path, ast.Module]) -> list[str]:
    """Return the modules that at most one other uses.

    What is imported from a face counts as used from its home. Left out are faces, entries of
    processes, modules that a table names as text (commands), and what users' scripts import.
    """
    names = {module_of(checkout, path): path for path in trees}
    homes = {
        (face, asked): home
        for face, path in names.items()
        if path.name == "__init__.py"
        for asked, home in imported(trees[path], names)
    }
    users: dict[str, set[str]] = defaultdict(set)
    for name, path in names.items():
        if path.name != "__init__.py":
            for asked, module in imported(trees[path], names):
                users[homes.get((module, asked), module)].add(name)
    return [
        name
        for name, path in names.items()
        if path.name not in {"__init__.py", "__main__.py"}
        and name.startswith("trainfeed.")
        and not name.startswith(FOR_USERS)
        and '__name__ == "__main__"' not in path.read_text()
        and not any(f'".{path.stem}' in each.read_text() for each in path.parent.glob("_*.py"))
        and len(users[name]) <= 1
    ]


def imported(tree: ast.Module, names: dict[str, Path]) -> Iterator[tuple[str, str]]:
    """Yield name and module for each import of a module; a module itself has the name ``*``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                module = f"{node.module}.{alias.name}"
                yield ("*", module) if module in names else (alias.name, node.module)


def module_of(checkout: Path, path: Path) -> str:
    """Return the dotted name of a module."""
    include = checkout / "include"
    parts = path.relative_to(include if include in path.parents else checkout).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def start(checkout: Path, program: str, folder: str) -> str:
    """Return processor seconds of a program in a fresh process, and its modules of trainfeed."""
    root = Path(folder, "root")
    environment = {**os.environ, "PYTHONPATH": f"{checkout / 'include'}:{checkout}"}
    if not root.exists():
        command = [sys.executable, "-m", "trainfeed", "init", str(root)]
        subprocess.run(command, env=environment, check=True, capture_output=True)
    text = program.replace("COMMAND", f"\n{COMMAND}").replace("ROOT", repr(str(root))) + COST
    runs = [
        subprocess.run(
            [sys.executable, "-c", text],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        .stdout.splitlines()[-1]
        .split()
        for _ in range(6)
    ][1:]
    return f"{statistics.median(float(cpu) for cpu, _ in runs):.2f} s, {runs[0][1]} modules"


if __name__ == "__main__":
    main()
