"""What a run of a form did, as HTML: its result first, then everything else that it told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from plugins._html import section, text

__all__ = ["told_results", "told_target"]


def told_target(told: Sequence[Mapping[str, Any]]) -> str:
    """Return what a run was about, as ``flights/2013-01-02``; empty if no task has told it."""
    return next((str(each["target"]) for each in told if each.get("target")), "")


def told_results(told: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the results of the tasks of a run; other shapes of values count as nothing."""
    for each in told:
        lines = each.get("lines")
        if isinstance(lines, list) and lines:
            others = (f"<p>{text(line)}</p>" for line in lines[1:])
            yield section("Result", f"<p><strong>{text(lines[0])}</strong></p>", *others)
