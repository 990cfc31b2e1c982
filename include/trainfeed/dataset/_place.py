"""Whether a version lies where its manifest says: a copy under another name is another day's data.

Only a path that ends as the layout has it, ``<data set>/versions/<interval>/gNNNN``, promises
something. A version that was copied elsewhere is opened by its path and names itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from trainfeed.dataset.layout import is_generation, is_name, parse_generation
from trainfeed.errors import FormatError

__all__ = ["require_folder", "require_place"]

_VERSIONS: Final = "versions"
# An interval's name is the start of its window, as short as the schedule allows: the day, the
# hour or the minute. ``2013-01-01T05:10:00Z`` is cut to the length of the name.
_START_CHARS: Final = {10: slice(0, 10), 13: slice(0, 13), 15: slice(0, 16)}


class _VersionPlace(NamedTuple):
    """What the path of a version says of it."""

    dataset: str
    interval: str
    generation: int


def require_folder(path: Path) -> None:
    """Refuse a version whose folder is a symbolic link.

    Raises:
        FormatError: The link could lead to any other version, and change while it is read.
    """
    if _place(path) is not None and path.is_symlink():
        raise FormatError(
            "expected a version folder, got a symbolic link, which is not followed; nothing was"
            " read; put the version itself here, or remove the link",
            path=str(path),
        )


def require_place(path: Path, dataset: str, start: str, generation: int) -> None:
    """Compare what a manifest says of its version with the version's path.

    Args:
        path: Folder of the version.
        dataset: Name of the data set.
        start: Start of the interval, as ``2013-01-01T05:10:00Z``.
        generation: Number of the generation.

    Raises:
        FormatError: The version belongs somewhere else; names every difference.
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
