"""Writes ``reference/errors.md``: every error with its cause and remedy, from its docstring.

The sections of the runbook that speak of an error are looked up there.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from docs._writing import anchor, write_or_check
from trainfeed import errors
from trainfeed.errors import Outcome, TrainFeedError

_PAGE: Final = "reference/errors.md"
_RUNBOOK: Final = Path(__file__).resolve().parent / "operations" / "runbook.md"
_HEAD: Final = """\
# Errors

<!-- Written by `make docs` from the docstrings of `trainfeed.errors`. -->

Everything that trainfeed raises on purpose. A message says what was expected, what was found,
where, what was kept, and what to do. [Bad input](../operations/bad-input.md) has the outcome of
each case, the [runbook](../operations/runbook.md) what to do about a task that failed.

The *outcome* is what a scheduler does with a task that raised it: **retry** tries again by itself,
**fail** ends the task at once, because a try without a change would fail in the same way.
"""
_OUTCOMES: Final = {Outcome.RETRY: "retry", Outcome.FAIL: "fail"}
_PARTS: Final = re.compile(
    r"(?P<what>.*?)\n\nCause: (?P<cause>.*?)\nRemedy: (?P<remedy>.*?)\nSee (?P<see>\S+)$", re.DOTALL
)


def documents() -> Mapping[str, str]:
    """The text of the page, by its name."""
    tree = errors.__doc__ or ""
    known = sorted(_classes(TrainFeedError), key=lambda cls: tree.index(f" {cls.__name__}"))
    return {_PAGE: "\n".join([_HEAD, *_table(known), *map(_section, known)])}


def _classes(cls: type[TrainFeedError]) -> Iterator[type[TrainFeedError]]:
    yield cls
    for below in cls.__subclasses__():
        yield from _classes(below)


def _table(known: list[type[TrainFeedError]]) -> Iterator[str]:
    yield "| error | outcome | what it says |\n| --- | --- | --- |"
    for cls in known:
        what = " ".join(_parts(cls)["what"].partition("\n\n")[0].split())
        depth = "&emsp;" * (sum(issubclass(base, TrainFeedError) for base in cls.__mro__) - 1)
        yield f"| {depth}[`{cls.__name__}`](#{_anchor(cls)}) | {_OUTCOMES[cls.outcome]} | {what} |"
    yield ""


def _section(cls: type[TrainFeedError]) -> str:
    parts = _parts(cls)
    base = cls.__base__
    kind = f"a [`{base.__name__}`](#{_anchor(base)}), " if cls is not TrainFeedError else ""
    lines = [
        f"## {cls.__name__}\n\n{parts['what']}\n",
        f"**Cause.** {_line(parts['cause'])}\n",
        f"**Remedy.** {_line(parts['remedy'])}\n",
        f"*{kind}outcome: {_OUTCOMES[cls.outcome]}*\n",
    ]
    if links := list(_runbook(cls)):
        lines.append(f"In the runbook: {', '.join(links)}.\n")
    return "\n".join(lines)


def _parts(cls: type[TrainFeedError]) -> Mapping[str, str]:
    """The parts of a docstring; exits with a message if one of them is missing."""
    text = (inspect.getdoc(cls) or "").replace("``", "`")
    found = _PARTS.fullmatch(text)
    if found is None or found["see"] != f"docs/{_PAGE}#{_anchor(cls)}":
        raise SystemExit(
            f"expected the docstring of {cls.__name__} to end with 'Cause: …', 'Remedy: …' and"
            f" 'See docs/{_PAGE}#{_anchor(cls)}', got {text!r}"
        )
    return found.groupdict()


def _anchor(cls: type) -> str:
    return cls.__name__.lower()


def _line(text: str) -> str:
    """Return a text on one line, with the pages that it names as links."""
    return re.sub(r"docs/(\S+\.md)", r"[\1](../\1)", " ".join(text.split())).replace(
        "(../reference/", "("
    )


def _runbook(cls: type) -> Iterator[str]:
    for section in _RUNBOOK.read_text(encoding="utf-8").split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        if cls.__name__ in section and text:
            yield f"[{title}](../operations/runbook.md#{anchor(title)})"


if __name__ == "__main__":
    write_or_check(documents(), sys.argv[1:])
