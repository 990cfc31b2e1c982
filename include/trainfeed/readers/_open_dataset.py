"""Opens published data sets: by name and interval, range or tag, or by the path of one version.

The current version of an interval is found through its file CURRENT, and the files of a version
through its manifest. Folders are listed only to open a range (the folder of the intervals), and for
an interval whose CURRENT names no existing version. A range with a missing interval is refused,
unless ``missing`` is ``skip``.
"""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

from trainfeed.datacenters import local_source
from trainfeed.dataset import DatasetFolder, Version, published_root
from trainfeed.dataset.layout import is_generation, parse_generation
from trainfeed.dataset.tags import TaggedData
from trainfeed.dataset.withdrawals import look_for_withdrawal
from trainfeed.errors import ConfigError, NotFoundError
from trainfeed.readers._dataset import DatasetReader
from trainfeed.readers._reader_lease import leased

__all__ = ["open_dataset"]


def open_dataset(  # noqa: PLR0913 - one call for all ways to name versions
    name: str | Path,
    *,
    interval: str | date | None = None,
    split: str,
    generation: str | None = None,
    missing: str = "fail",
    root: str | Path | None = None,
    lease: timedelta | bool = False,
    withdrawn: str = "fail",
) -> DatasetReader:
    """Open a split of a published data set.

    Args:
        name: Name of a data set below the publication root, ``NAME@TAG`` for the versions that a
            tag names now (``NAME@TAG#3``: that its third change named), or the path of one version;
            one with ``@`` in it begins with ``./`` or ``/``. A tag is resolved once.
        interval: Name of an interval, a day, or a range: ``2026-01`` for a month, ``2026-01-01``,
            ``2026-01-01T05``, ``first/last`` with both ends included. The text stands for all
            intervals that start in this time; ``version`` of the result names them. None for all
            of a tag, and if ``name`` is the path of a version.
        split: Name of the split.
        generation: Generation of a single interval, such as ``g0002``; None takes the current one.
        missing: ``fail`` refuses a range with missing intervals; ``skip`` reads the others, and
            ``missing`` of the result names the missing ones. An interval that was left out on
            purpose is not missing; ``skipped`` of the result names it, and ``accepted`` the holes
            between versions that a person accepted.
        root: The publication root; ``TRAINFEED_ROOT`` or its default when None.
        lease: Whether to keep retention from removing the versions, until ``close`` of the result
            or the end of a ``with`` block. A thread renews the lease; after a kill of this process
            it ends within the time given here, by default an hour, and ten minutes.
        withdrawn: ``fail`` refuses a withdrawn version that ``generation`` or the path names; with
            ``warn`` a job that began with it goes on, and a warning says who withdrew it and why.

    Raises:
        WithdrawnError: A person withdrew the version; the message has who, why, and the commands.
        NotFoundError: No requested interval is published, or the path does not exist.
        WindowIncompleteError: Intervals of the range are not published, and ``missing`` is
            ``fail``.
        WindowError: ``interval`` is not an interval or range, or the schedule has no interval
            there.
        ConfigError: There is no such split or policy, the versions of a range have different
            schemas or overlap, or ``generation`` or ``root`` comes with a path.
        RootError: The publication root is missing, or the folder is not a publication root.
        AccessDeniedError: This account may not write the lease; the message has the remedy.
        ConflictError: A version of the tag is withdrawn or removed; none is read in its place.
        ChecksumError: A manifest differs from the published one, or from the tagged one.
        FormatError: The file of the tag is damaged.
    """
    if interval is None and not _is_tag(name):
        if generation is not None or root is not None:
            raise ConfigError(
                f"expected an interval beside generation and root, got only {str(name)!r}; name an"
                " interval, or give the path of a version alone"
            )
        return leased(
            DatasetReader([_version_at(Path(local_source(name)), withdrawn)], split), lease
        )
    data = TaggedData(published_root(root), str(name))
    asked = None if interval is None else str(interval)
    if generation is not None:
        return leased(DatasetReader([_pinned(data, asked, generation, withdrawn)], split), lease)
    _refuse_generation(asked)
    found = data.cover(asked)
    found.require(missing)
    reader = DatasetReader(
        found.versions,
        split,
        missing=found.missing,
        skipped=found.skipped,
        accepted=found.accepted,
    )
    return leased(reader, lease)


def _is_tag(name: str | Path) -> bool:
    return isinstance(name, str) and "@" in name and "/" not in name


def _pinned(data: TaggedData, asked: str | None, generation: str, withdrawn: str) -> Version:
    number = parse_generation(generation)
    if data.tag is not None or asked is None:
        raise ConfigError(
            f"a tag names generations itself, {data.folder.name} was asked for with a tag and with"
            f" {generation}; leave one out"
        )
    if "/" in asked:
        raise ConfigError(f"a generation pins one interval, {asked!r} is a range; name one")
    look_for_withdrawal(data.folder, asked, number, withdrawn=withdrawn)
    return Version.resolve(data.folder, asked, number)


def _refuse_generation(asked: str | None) -> None:
    first, _, last = (asked or "").partition("/")
    if is_generation(last):
        raise ConfigError(
            f"expected interval={first!r} and generation={last!r}, got interval={asked!r}"
        )


def _version_at(path: Path, withdrawn: str) -> Version:
    if not path.exists():
        raise NotFoundError(
            f"expected the path of a version, nothing is at {path}; to open a data set by its name,"
            f" name an interval too: open_dataset({path.name!r}, interval=…, split=…)"
        )
    place = path.resolve()
    if is_generation(place.name) and place.parent.parent.name == "versions":
        data_set = place.parents[2]
        folder = DatasetFolder(data_set.parent, data_set.name)
        number = parse_generation(place.name)
        look_for_withdrawal(folder, place.parent.name, number, withdrawn=withdrawn)
    return Version.open(path)
