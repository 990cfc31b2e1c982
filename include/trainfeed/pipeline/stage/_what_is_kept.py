"""What a failed stage leaves behind, as its message says it."""

from __future__ import annotations

from trainfeed.specification import DatasetSpec

__all__ = ["kept"]


def kept(spec: DatasetSpec) -> str:
    """Return the part of a message: landing files are named only where there are any."""
    nothing = "nothing was published"
    return f"landing files are kept, {nothing}" if spec.source.kind.lands else nothing
