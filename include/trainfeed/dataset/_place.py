"""Compares the path of a version with its manifest: a renamed folder has the data of another day.

The comparison applies to paths of the layout only: ``<data set>/versions/<interval>/gNNNN``. A
version that was copied to another place is opened by its path, without a comparison.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from trainfeed.dataset.layout import is_generation, is_name, parse_generation
from trainfeed.errors import FormatError

__all__ = ["require_folder", "require_place"]

_VERSIONS: Final = "versions"
# The name of an interval is its start, as short as the schedule allows: day, hour or minute. Length
# of the name → the part of ``2013-01-01T05:10:00Z`` in it; 15 characters have no colon.
_START_CHARS: Final = {10: slice(0, 10), 13: slice(0, 13), 15: slice(0, 16)}


class _VersionPlace(NamedTuple):
    """Data set, interval and generation from the path of a version."""

    dataset: str
    interval: str
    generation: int


def require_folder(path: Path) -> None:
    """Refuse a version whose folder is a symbolic link.

    Raises:
        FormatError: The folder is a link, which could lead to another version or change.
    """
    if _place(path) is not None and path.is_symlink():
        raise FormatError(
            "expected a version folder, got a symbolic link, which is not followed; nothing was"
            " read; put the version itself here, or remove the link",
            path=str(path),
        )


def require_place(path: Path, dataset: str, start: str, generation: int) -> None:
    """Compare the values of a manifest with the version's path.

    Args:
        path: Folder of the version.
        dataset: Name of the data set in the manifest.
        start: Start of the interval in the manifest, as ``2013-01-01T05:10:00Z``.
        generation: Number of the generation in the manifest.

    Raises:
        FormatError: The version belongs elsewhere; the message names every difference.
    """
    place = _place(path)
    if place is None:
        return
    found = _VersionPlace(dataset, _interval_name(start, len(place.interval)), generation)
    differences = [
        f"{name} {promised!r}, the manifest says {actual!r}"
        for name, promised, actual in zip(place._fields, place, found, strict=True)
        if promised != actual
    ]
    if differences:
        raise FormatError(
            f"expected {'; '.join(differences)}: this is another version in the place of the one"
            " that the path names; nothing was read; restore the right folder from a backup, or"
            " remove this one and build the interval again",
            path=str(path),
        )


def _place(path: Path) -> _VersionPlace | None:
    interval, versions, dataset = path.absolute().parents[:3]
    if versions.name != _VERSIONS or not is_generation(path.name) or not is_name(dataset.name):
        return None
    return _VersionPlace(dataset.name, interval.name, parse_generation(path.name))


def _interval_name(start: str, num_chars: int) -> str:
    text = start[_START_CHARS.get(num_chars, slice(None))]
    return text.replace(":", "") if num_chars == 15 else text
