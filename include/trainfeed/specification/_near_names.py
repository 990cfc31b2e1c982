"""Hints at the name that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

__all__ = ["cut", "did_you_mean", "nearest"]

_MAX_SHOWN_CHARS: Final = 60


def did_you_mean(got: object, names: Iterable[str]) -> str:
    """Return a hint at the nearest of ``names``, or at all of them if none is near."""
    known = list(names)
    return nearest(got, known) or f"known here: {', '.join(known)}"


def nearest(got: object, names: Iterable[str]) -> str:
    """Return a hint at the nearest of ``names``, or one that begins with ``got``; else empty."""
    text, known = cut(str(got)).lower(), list(names)
    near = get_close_matches(text, known, n=1)
    near = near or [name for name in known if len(text) > 2 and name.startswith(text)]
    return f"did you mean {near[0]!r}?" if near else ""


def cut(text: str) -> str:
    """Return a text short enough for a message."""
    return text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:_MAX_SHOWN_CHARS]}…"
