"""The entries of a folder of logs that were not read, as plan and manifest name them, in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

__all__ = ["told_passed_over"]

_SHOWN: Final = 3


def told_passed_over(passed_over: Mapping[str, str], *, marker: bool = True) -> str:
    """Return how many entries were passed over for each reason, with the first names.

    Args:
        passed_over: Name → reason.
        marker: Whether markers, which lie in every complete folder, are told as well.

    Returns:
        A part of a sentence, such as ``1 marker (_SUCCESS), 2 unfinished (a.tmp, b.tmp)``; empty if
        there is nothing to tell.
    """
    names: dict[str, list[str]] = defaultdict(list)
    for name, reason in sorted(passed_over.items()):
        if marker or reason != "marker":
            names[reason].append(name)
    return ", ".join(f"{len(found)} {reason} ({_first(found)})" for reason, found in names.items())


def _first(names: list[str]) -> str:
    return ", ".join([*names[:_SHOWN], *(["…"] if len(names) > _SHOWN else [])])
