"""Names what differs between two JSON values, for messages."""

from __future__ import annotations

__all__ = ["differences"]


def differences(old: object, new: object, place: str = "") -> list[str]:
    """Return one line per value that differs, as ``place: old → new``."""
    if isinstance(old, dict) and isinstance(new, dict):
        lines = []
        for key in sorted(old.keys() | new.keys()):
            lines += differences(old.get(key), new.get(key), f"{place}.{key}" if place else key)
        return lines
    return [] if old == new else [f"{place}: {old!r} → {new!r}"]
