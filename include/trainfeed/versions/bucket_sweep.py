"""Objects of a bucket that belong to no version: what killed builds and removals have left.

A number without a manifest is given up by a mark in the log before its files go, so that no build
publishes it meanwhile: it would find the mark where it announces its version. In a mirror no number
is given up: its marks are those of the source, and what a killed copy has sent is used by the next.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

from trainfeed.core import canonical_json, faults
from trainfeed.core.accounts import account_name
from trainfeed.errors import NotFoundError
from trainfeed.files import is_there
from trainfeed.files.stores import FileInfo, Location, posix
from trainfeed.versions.bucket_objects import FILES, BucketVersion
from trainfeed.versions.bucket_root import bucket_mark
from trainfeed.versions.layout import (
    MIRROR,
    DatasetFolder,
    generation_of_plan,
    is_generation,
    is_name,
    parse_generation,
)
from trainfeed.versions.state_folder import decide

_WHY = "no version was made of its files; they were old"


class LeftObjects(NamedTuple):
    """Objects that belong to no version.

    Attributes:
        place: Where they are.
        objects: They themselves.
        num_bytes: Their size.
        modified: When the last one was written, by the clock of the store.
    """

    place: Location
    objects: tuple[Location, ...]
    num_bytes: int
    modified: datetime


def sweep_bucket(
    folder: DatasetFolder, before: datetime, *, dry_run: bool = False
) -> Iterator[LeftObjects]:
    """Remove the objects of a data set that belong to no version and are old; yield them.

    Args:
        folder: The data set; nothing is done for one that follows no bucket.
        before: Only what was last written before this time goes.
        dry_run: Whether to remove nothing.

    Raises:
        StorageError: The store refused or failed; earlier removals stand.
    """
    if (mark := bucket_mark(folder.root)) is None:
        return
    home = mark.place / folder.name / "versions"
    is_mirror = (mark.place / folder.name / MIRROR).exists()
    for interval in _names(home):
        if not is_name(interval):
            continue
        for name in filter(is_generation, _names(home / interval)):
            version = BucketVersion(home / interval / name)
            found = _left(folder, version, interval, parse_generation(name), is_mirror=is_mirror)
            if found is None or found.modified >= before:
                continue
            if not dry_run and not _remove(folder, version, found):
                continue
            yield found


def _left(
    folder: DatasetFolder,
    version: BucketVersion,
    interval: str,
    generation: int,
    *,
    is_mirror: bool,
) -> LeftObjects | None:
    """Return the objects of a generation that belong to no version; None if there are none."""
    place = version.folder
    if folder.is_removed(interval, generation):
        since = _marked_at(folder, interval, generation)
        return None if since is None else _objects_of(place, set(), since)
    try:
        manifest, _ = version.read()
    except NotFoundError:
        if is_mirror:
            return None
        numbers = [generation_of_plan(each) for each in folder.plan_ids(interval)]
        # Its build may go on; the rule ``plans`` of retention gives the number up.
        return None if generation in numbers else _objects_of(place, set())
    own = {sha256 for _, sha256 in manifest.file_digests().values()}
    return _objects_of(place / FILES, own)


def _objects_of(
    place: Location, own: set[str], since: datetime | None = None
) -> LeftObjects | None:
    """Return all objects below a place, but for those of some names; None if there are none."""
    found = list(_below(place, own))
    if not found:
        return None
    last = datetime.fromtimestamp(max(info.modified_ms for _, info in found) / 1000, UTC)
    size = sum(info.size_bytes for _, info in found)
    return LeftObjects(place, tuple(each for each, _ in found), size, max(last, since or last))


def _below(place: Location, left_out: set[str]) -> Iterator[tuple[Location, FileInfo]]:
    try:
        infos = place.list()
    except NotFoundError:
        return
    for info in infos:
        if info.name in left_out:
            continue
        if info.is_dir:
            yield from _below(place / info.name, set())
        else:
            yield place / info.name, info


def _remove(folder: DatasetFolder, version: BucketVersion, found: LeftObjects) -> bool:
    """Remove objects; return False if a version was made of them meanwhile."""
    interval, generation = version.folder.parent.name, parse_generation(version.folder.name)
    if found.place == version.folder:
        if not decide(folder, "gc", partial(_give_up, folder, interval, generation)):
            return False
        faults.point("sweep.after_mark")
    for each in found.objects:
        each.delete()
    return True


def _give_up(folder: DatasetFolder, interval: str, generation: int) -> bool:
    """Mark a number as one that is never used; return False if it has a version by now.

    A mark of retention is written anew: the folder that wrote it drops the version then, and so
    does not take the mark back while files go.
    """
    if is_there(folder.version(interval, generation)):
        return False
    made = {"at": datetime.now(UTC).isoformat(), "who": account_name(), "why": _WHY}
    mark = folder.removal_mark(interval, generation)
    posix.make_public_dir(mark.parent)
    if not posix.create_exclusive(mark, canonical_json.dumps(made), is_public=True):
        found = json.loads(mark.read_bytes())
        if "swept_at" not in found:
            again = canonical_json.dumps({**found, "swept_at": made["at"]})
            posix.replace_file(mark, again, is_public=True)
    return True


def _marked_at(folder: DatasetFolder, interval: str, generation: int) -> datetime | None:
    """Return when a removal was marked; None if that cannot be told, or is under way here."""
    if folder.has_folder(interval, generation):
        return None
    mark = folder.removal_mark(interval, generation)
    with suppress(OSError, ValueError, KeyError, TypeError):
        found = datetime.fromisoformat(json.loads(mark.read_bytes())["at"])
        return found if found.tzinfo is not None else None
    return None


def _names(place: Location) -> list[str]:
    try:
        return [info.name for info in place.list() if info.is_dir]
    except NotFoundError:
        return []
