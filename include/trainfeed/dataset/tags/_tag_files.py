"""The changes of a tag as files: numbered, created exclusively, and never changed.

The file with the largest number is the tag. So a change is whole or absent, and only one of two
simultaneous changes gets a number. A damaged file is an error, also where an older one is whole:
the older one is not what the tag names. ``LAST.json`` has the largest number, so the loss of the
newest file is noticed, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from trainfeed import canonical_json, faults
from trainfeed.dataset.layout import DatasetFolder, is_name
from trainfeed.dataset.tags._tag import Tag
from trainfeed.errors import ConfigError, ConflictError, FormatError, NotFoundError
from trainfeed.paths import listed_folder
from trainfeed.records import RecordFile
from trainfeed.specification import did_you_mean
from trainfeed.version_names import check_version_name

__all__ = [
    "change_of_request",
    "confirm_changes",
    "current_tag",
    "last_change",
    "listed_tag",
    "require_tag",
    "tag_history",
    "tag_names",
    "write_change",
]

# A number is used for ever, also by a file that was moved aside under a name that begins with it,
# but not by the unfinished file of a killed try.
_NUMBERED: Final = re.compile(r"([0-9]{4,8})\.(?!.*\.tmp$).+")
_FILE: Final = RecordFile(
    Tag,
    "a change of a tag",
    "nothing of the tag was read or changed; bring the file back from a backup, or tag again: a new"
    " change takes its place",
    # A tag of 100,000 versions has about 20 MB.
    max_bytes=canonical_json.MAX_BYTES,
    to_json=Tag.to_json,
    from_json=Tag.from_json,
)


def tag_names(folder: DatasetFolder) -> list[str]:
    """Return the names of all tags that a data set has or had, sorted.

    A folder that somebody made by hand may have a name that no tag can have; see ``listed_tag``.

    Raises:
        FormatError: Something else than a folder is in the place of the tags.
        StorageError: The publication root refused or failed.
    """
    return sorted(path.name for path in listed_folder(folder.tags) if is_name(path.name))


def current_tag(folder: DatasetFolder, tag: str) -> Tag | None:
    """Return the newest change of a tag, or None while the data set has none of this name.

    A tag that was removed is a change of the kind ``untag``.

    Raises:
        ConfigError: No tag may have that name.
        FormatError: The file of the newest change is damaged.
        StorageError: The publication root refused or failed.
    """
    numbers = _numbers(folder, tag)
    return _read(folder, tag, numbers[-1]) if numbers else None


def listed_tag(folder: DatasetFolder, tag: str) -> Tag | None:
    """Return the newest change of a tag that ``tag_names`` has listed; see ``current_tag``.

    Raises:
        FormatError: The file of the newest change is damaged, or no tag may have that name.
        StorageError: The publication root refused or failed.
    """
    try:
        return current_tag(folder, tag)
    except ConfigError as error:
        raise FormatError(
            f"{error}; nothing of it was read or changed; move it out of the folder of tags",
            path=str(folder.tags / tag),
        ) from error


def last_change(folder: DatasetFolder, tag: str) -> tuple[int, Tag | None]:
    """Return the largest number that a tag has used, 0 if none, and its change.

    The change is None if there is none, or if its file is damaged or gone: then a new one may take
    its place, with the next number.

    Raises:
        ConfigError: No tag may have that name.
        StorageError: The publication root refused or failed.
    """
    numbers = _numbers(folder, tag)
    if not numbers:
        return 0, None
    try:
        return numbers[-1], _read(folder, tag, numbers[-1])
    except FormatError:
        return numbers[-1], None


def require_tag(folder: DatasetFolder, tag: str, number: int | None = None) -> Tag:
    """Return a tag as it is now, or as a change made it.

    Args:
        folder: The data set.
        tag: Name of the tag.
        number: Number of the change; None for the newest.

    Raises:
        ConfigError: No tag may have that name.
        NotFoundError: There is no such tag or change, or the tag was removed.
        FormatError: The file is damaged.
        StorageError: The publication root refused or failed.
    """
    numbers = _numbers(folder, tag)
    if not numbers:
        raise _unknown(folder, tag)
    if number is not None and number not in numbers:
        raise NotFoundError(
            f"expected change {number} of tag {folder.name}@{tag}, it has {numbers[0]} to"
            f" {numbers[-1]}; look at them: trainfeed tags {folder.name} {tag} --history"
        )
    found = _read(folder, tag, number or numbers[-1])
    if found.kind == "untag":
        raise NotFoundError(
            f"tag {folder.name}@{tag} was removed by {found.told}; nothing was read; look at its"
            f" history: trainfeed tags {folder.name} {tag} --history; give it again: trainfeed tag"
            f" {folder.name} {found.range} {tag} --why WHY"
        )
    return found


def tag_history(
    folder: DatasetFolder, tag: str, on_damage: Callable[[int, FormatError], object] | None = None
) -> list[Tag]:
    """Return all changes of a tag, the oldest first.

    Args:
        folder: The data set.
        tag: Name of the tag.
        on_damage: Called with number and error of a damaged change, which is left out; None raises.

    Raises:
        ConfigError: No tag may have that name.
        FormatError: A file is damaged, and ``on_damage`` is None; or something else than a folder
            is in the place of the tag.
        StorageError: The publication root refused or failed.
    """
    found = []
    for number in _numbers(folder, tag):
        try:
            found.append(_read(folder, tag, number))
        except FormatError as error:
            if on_damage is None:
                raise
            on_damage(number, error)
    return found


def change_of_request(folder: DatasetFolder, tag: str, request: str) -> Tag | None:
    """Return the change that an earlier attempt at a request has made; damaged files are none.

    Raises:
        ConfigError: No tag may have that name.
        StorageError: The publication root refused or failed.
    """
    for number in _numbers(folder, tag):
        with suppress(FormatError):
            found = _read(folder, tag, number)
            if found.decision.request == request:
                return found
    return None


def write_change(folder: DatasetFolder, tag: Tag) -> None:
    """Write a change of a tag, unless another one has its number.

    Raises:
        ConflictError: Another person was faster; the message has who and why. Nothing was written.
        StorageError: The publication root refused or failed.
    """
    path = _path(folder, tag.tag, tag.number)
    faults.point("tags.before_change")
    is_ours = _FILE.write_once(path, replace(tag, dataset=folder.name))
    faults.point("tags.after_change")
    _FILE.confirm(path.parent, tag.number)
    if not is_ours:
        first = _read(folder, tag.tag, tag.number)
        raise ConflictError(
            f"{path}: tag {folder.name}@{tag.tag} was changed meanwhile by {first.told}; this"
            f" change was not made; look at it: trainfeed tags {folder.name} {tag.tag}"
        )


def confirm_changes(folder: DatasetFolder, tag: str) -> None:
    """Confirm the newest change, which an earlier process may have written and not confirmed.

    Raises:
        FormatError: ``LAST.json`` of the tag is damaged.
        StorageError: The publication root refused or failed.
    """
    if numbers := _numbers(folder, tag):
        _FILE.confirm(folder.tag(tag), numbers[-1])


def _numbers(folder: DatasetFolder, tag: str) -> range:
    """Return the numbers that a tag has used, also those of files that are gone."""
    check_version_name(tag, what="tag")
    matches = (_NUMBERED.fullmatch(path.name) for path in listed_folder(folder.tag(tag)))
    last = _FILE.confirmed(folder.tag(tag))
    return range(1, max([last, *(int(match[1]) for match in matches if match)]) + 1)


def _path(folder: DatasetFolder, tag: str, number: int) -> Path:
    return folder.tag(tag) / f"{number:04d}.json"


def _read(folder: DatasetFolder, tag: str, number: int) -> Tag:
    path = _path(folder, tag, number)
    what = f"change {number} of tag {folder.name}@{tag}"
    file = replace(_FILE, what=what)
    if (found := file.read(path, dataset=folder.name, tag=tag, number=number)) is None:
        raise FormatError(f"expected {what}: it is gone; {file.remedy}", path=str(path))
    return found


def _unknown(folder: DatasetFolder, tag: str) -> NotFoundError:
    names = tag_names(folder)
    hint = did_you_mean(tag, names) if names else "it has none"
    return NotFoundError(
        f"data set {folder.name!r} has no tag {tag!r} in {folder.tags}; {hint}; tags of data were"
        f" looked up, not aliases of models (trainfeed models ls); give the tag: trainfeed tag"
        f" {folder.name} RANGE {tag} --why WHY"
    )
