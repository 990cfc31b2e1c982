"""Trainings by tag: the versions that a tag names when the training is asked for."""

from __future__ import annotations

import hashlib
from pathlib import Path

from trainfeed.dataset import DatasetFolder
from trainfeed.dataset.sealed_json import read_sealed, sealed, text_of
from trainfeed.dataset.tags import Tag, require_tag
from trainfeed.errors import ConflictError, FormatError, NotFoundError
from trainfeed.intervals import Interval
from trainfeed.specification import DatasetSpec
from trainfeed.storage import posix
from trainfeed.version_names import check_version_name, split_version_name

__all__ = ["tagged_training"]


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
    place = None if request is None else _place(folder, name, f"{request} {text}")
    tag = None if place is None else _found(folder, name, place)
    if tag is None:
        tag = require_tag(folder, name, named.change)
        if place is not None:
            tag = _first(folder, tag, place, f"{request} {text}")
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


def _first(folder: DatasetFolder, tag: Tag, place: Path, request: str) -> Tag:
    """Record which change a request gets, or return the one that another call got meanwhile."""
    posix.make_public_dir(place.parent)
    value = {"request": request, "number": str(tag.number)}
    posix.create_exclusive(place, sealed(value), is_public=True)
    return _found(folder, tag.tag, place) or tag


def _found(folder: DatasetFolder, tag: str, place: Path) -> Tag | None:
    """Return the change that a request got before, also if the tag was moved or removed since."""
    what, remedy = "a request for a tag", "nothing was started; move the file away and ask again"
    try:
        number = int(text_of(read_sealed(place, what, remedy), "number"))
    except NotFoundError:
        return None
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"expected {what}: {error}; {remedy}", path=str(place)) from error
    return require_tag(folder, tag, number)
