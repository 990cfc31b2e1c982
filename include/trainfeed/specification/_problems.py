"""From what is wrong to a message: ``file:line: field: expected, got; remedy``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple, TypeAlias

from trainfeed.errors import SpecError
from trainfeed.printable_text import printable

__all__ = [
    "Place",
    "Problem",
    "RefusedError",
    "did_you_mean",
    "nearest",
    "shown",
    "spec_error",
]

Place: TypeAlias = tuple[str | int, ...]

_MAX_SHOWN_CHARS = 60
_MAX_PROBLEMS = 20


class Problem(NamedTuple):
    """One thing that is wrong: the line (from 1), the path of the field, what to say."""

    line: int
    place: Place
    text: str


class RefusedError(Exception):
    """A document that cannot become a specification, with every known reason."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(*problems)
        self.problems = problems


def spec_error(file: Path, problems: Iterable[Problem]) -> SpecError:
    """One error for ``problems`` of ``file``, one per line, in line order, the first 20."""
    ordered = sorted(problems, key=lambda problem: problem.line)
    lines = [
        printable(": ".join(filter(None, (f"{file}:{line}", _path(place), text))))
        for line, place, text in ordered[:_MAX_PROBLEMS]
    ]
    if more := ordered[_MAX_PROBLEMS:]:
        lines.append(printable(f"{file}:{more[0].line}: {len(more)} more problems from here on"))
    return SpecError("\n".join(lines))


def shown(value: object) -> str:
    """``value`` as the file has it, short enough for a message."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case int() | Decimal():
            return str(value)
        case Mapping():
            return "a mapping"
        case tuple():
            text = f"[{', '.join(map(shown, value))}]"
        case _:
            text = repr(value)
    return _cut(text)


def did_you_mean(got: object, names: Iterable[str]) -> str:
    """The nearest of ``names``, or all of them when none is near."""
    known = list(names)
    return nearest(got, known) or f"known here: {', '.join(known)}"


def nearest(got: object, names: Iterable[str]) -> str:
    """The nearest of ``names``, or the one that ``got`` begins; empty when there is none."""
    text, known = _cut(str(got)).lower(), list(names)
    near = get_close_matches(text, known, n=1)
    near = near or [name for name in known if len(text) > 2 and name.startswith(text)]
    return f"did you mean {near[0]!r}?" if near else ""


def _path(place: Place) -> str:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{_cut(part)}" for part in place)
    return path.removeprefix(".")


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:_MAX_SHOWN_CHARS]}…"
