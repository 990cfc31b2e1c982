"""Trainings by tag: the versions that a tag names when the training is asked for."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trainfeed.core.intervals import Interval
from trainfeed.core.version_names import check_version_name, split_version_name
from trainfeed.errors import ConflictError
from trainfeed.files.records import RecordFile, record_of
from trainfeed.specification import DatasetSpec
from trainfeed.versions import DatasetFolder
from trainfeed.versions.tag_files import Tag, require_tag


def tagged_training(
    spec: DatasetSpec, folder: DatasetFolder, text: str, *, request: str | None = None
) -> tuple[Tag, Interval]:
    """Return a tag for a training, and the interval that the training belongs to: its last.

    Args:
        spec: The data set.
        folder: Its folder below the publication root.
        text: ``TAG``, or ``TAG#3`` as its third change made it.
        request: The request, such as the id of a run: the first call for it decides which change
            the tag is, and every repetition gets the same, also when the tag has moved.

    Raises:
        ConfigError: ``text`` has another form.
        NotFoundError: There is no such tag or change, or the tag was removed.
        ConflictError: The tag names no version.
        FormatError: The file of the tag, or of the first call, is damaged.
        WindowError: The schedule of the specification has no interval of that name.
        StorageError: The publication root refused or failed.
    """
    named = split_version_name(f"{folder.name}@{text}")
    name = named.version or ""
    asked = None if request is None else f"{request} {text}"
    tag = None if asked is None else _found(folder, name, asked)
    if tag is None:
        tag = require_tag(folder, name, named.change)
        if asked is not None:
            tag = _first(folder, tag, asked)
    if not tag.versions:
        raise ConflictError(
            f"tag {folder.name}@{tag.name} names no version; nothing was started; tag others:"
            f" trainfeed tag {folder.name} RANGE {tag.tag} --why WHY"
        )
    return tag, spec.schedule_model().interval_named(tag.versions[-1].interval)


def _place(folder: DatasetFolder, tag: str, request: str) -> Path:
    """Return the file that says which change of the tag a request got."""
    digest = hashlib.sha256(request.encode()).hexdigest()[:32]
    return folder.tag(check_version_name(tag, what="tag")) / "requests" / f"{digest}.json"


def _first(folder: DatasetFolder, tag: Tag, request: str) -> Tag:
    """Record which change a request gets, or return the one that another call got meanwhile."""
    asked = _Request(request, tag.number, folder.name, tag.tag)
    _FILE.write_once(_place(folder, tag.tag, request), asked)
    return _found(folder, tag.tag, request) or tag


def _found(folder: DatasetFolder, tag: str, request: str) -> Tag | None:
    """Return the change that a request got before, also if the tag was moved or removed since."""
    place = _place(folder, tag, request)
    found = _FILE.read(place, request=request, dataset=folder.name, tag=tag)
    return None if found is None else require_tag(folder, tag, found.number)


@dataclass(frozen=True)
class _Request:
    """The change of a tag that a request got.

    Attributes:
        request: The request, and what it asked for.
        number: Number of the change.
        dataset: Name of the data set; None in a file of before.
        tag: Name of the tag, likewise.
    """

    request: str
    number: int
    dataset: str | None = None
    tag: str | None = None


_FILE: Final = RecordFile(
    _Request,
    "a request for a tag",
    "nothing was started; move the file away and ask again",
    # Files of before have the number as text.
    from_json=lambda value: record_of(_Request, {**value, "number": int(value["number"])}),
)
