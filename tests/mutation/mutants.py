"""Lines drawn by lot over the rooms, and one change of an expression in each."""

from __future__ import annotations

import ast
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CODE = ("include/trainfeed", "operators", "dags")
PROBE = '(__import__("mutation_probe").at({number}) or ({text}))'
_OPPOSITE = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE,
    ast.GtE: ast.Gt, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """An expression of a file, and what stands in its place.

    Attributes:
        path: The file in the repository.
        line: Number of its line, from 1.
        start: Where the expression begins in the bytes of the file.
        end: Where it ends.
        before: The expression.
        after: What it is changed to.
    """

    path: str
    line: int
    start: int
    end: int
    before: str
    after: str

    @property
    def room(self) -> str:
        """The room of the file."""
        return _room(self.path)

    def applied(self, data: bytes) -> bytes:
        """Return the file with the change."""
        return data[: self.start] + f"({self.after})".encode() + data[self.end :]

    def probed(self, data: bytes, number: int) -> bytes:
        """Return the file with a call that writes down which test got there."""
        text = PROBE.format(number=number, text=self.before)
        return data[: self.start] + text.encode() + data[self.end :]


def draw(root: Path, seed: int, count: int) -> list[Mutant]:
    """Draw lines: rooms in an order by lot, again and again; of each a file by its size, a line."""
    rng = random.Random(seed)
    files: dict[str, list[Path]] = defaultdict(list)
    for folder in CODE:
        for file in sorted((root / folder).rglob("*.py")):
            files[_room(file.relative_to(root).as_posix())].append(file)
    drawn: dict[tuple[str, int], Mutant] = {}
    while len(drawn) < count:
        for room in rng.sample(sorted(files), len(files)):
            (file,) = rng.choices(files[room], [file.stat().st_size for file in files[room]])
            found = list(mutants_of(file.relative_to(root).as_posix(), file.read_bytes()))
            if found and len(drawn) < count:
                mutant = rng.choice(found)
                drawn.setdefault((mutant.path, mutant.line), mutant)
    return list(drawn.values())


def mutants_of(path: str, data: bytes) -> Iterator[Mutant]:
    """Yield a change of each expression whose change is one of behaviour."""
    begins = [0]
    for line in data.splitlines(keepends=True):
        begins.append(begins[-1] + len(line))
    for node in _expressions(ast.parse(data)):
        start = begins[node.lineno - 1] + node.col_offset
        end = begins[node.end_lineno - 1] + node.end_col_offset
        before, after = data[start:end].decode(), _changed(node)
        if after is not None:
            yield Mutant(path, node.lineno, start, end, before, after)


def _room(path: str) -> str:
    parts = path.removeprefix("include/trainfeed/").split("/")
    return parts[0].removesuffix(".py")


def _expressions(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield expressions within functions: no annotations, no patterns, none of what is raised."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in node.body:
                yield from _within(statement)
        elif isinstance(node, ast.ClassDef):
            yield from _expressions(node)


def _within(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom):
        return
    if isinstance(node, ast.expr):
        yield node
    for name, value in ast.iter_fields(node):
        if name not in {"annotation", "returns", "decorator_list", "pattern"}:
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _within(child)


def _changed(node: ast.expr) -> str | None:
    """Return another expression in the place of this one; None if there is none."""
    other: ast.expr | None = None
    match node:
        case ast.Compare(left=left, ops=[op], comparators=right) if type(op) in _OPPOSITE:
            other = ast.Compare(left, [_OPPOSITE[type(op)]()], right)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPPOSITE:
            other = ast.BinOp(left, _OPPOSITE[type(op)](), right)
        case ast.BoolOp(op=op, values=values):
            other = ast.BoolOp(_OPPOSITE[type(op)](), values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            other = operand
        case ast.Constant(value=bool() as value):
            other = ast.Constant(not value)
        case ast.Constant(value=int() as value):
            other = ast.Constant(value + 1)
    return None if other is None else ast.unparse(other)
