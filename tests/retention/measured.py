"""What is there after a night, in bytes, and the limits that hold whatever people do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.retention.two_sets import OUTPUT_BYTES, Rules
from trainfeed.errors import NotFoundError
from trainfeed.files.stores import FileInfo, Location
from trainfeed.versions import Version


@dataclass(frozen=True)
class Night:
    """What is there after one night, in bytes.

    Attributes:
        number: Number of the night, from 0.
        landing: Landing files.
        landing_ever: All landing files that were ever written.
        versions: Versions of both data sets.
        versions_ever: All versions that were ever published.
        trainings: Job folders.
        work: Unfinished files.
        records: All else in the folders of both data sets: plans, boundaries, history, marks.
        removed: Number of items that retention has removed so far.
    """

    number: int
    landing: int
    landing_ever: int
    versions: int
    versions_ever: int
    trainings: int
    work: int
    records: int
    removed: int


def require_bounded(seen: list[Night], rules: Rules) -> None:
    """Hold every night against limits that do not grow, counted in files of the first night."""
    first, every = seen[0], 14
    outputs = rules.trainings // every + 4
    kept = rules.intervals + rules.views_intervals // rules.views_every
    assert first.number == 0
    for night in seen:
        assert night.landing <= 2 * max(rules.landing, rules.views_landing) * first.landing, night
        assert night.versions <= 3 * kept * first.versions // 4, night
        jobs = night.number // every + 1
        assert night.trainings <= outputs * OUTPUT_BYTES + jobs * OUTPUT_BYTES // 4, night
        assert night.work <= 4 * first.landing, night
        assert night.records <= (night.number + 1) * first.records, night


def size_of_version(version: Version) -> int:
    """Return the bytes of the files of a version, wherever its shards are."""
    digests = version.manifest.file_digests()
    shards = (size for name, (size, _) in digests.items() if not (version.path / name).exists())
    return size_of(version.path) + sum(shards)


def size_of(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def files_below(folder: Location, name: str = "") -> Iterator[tuple[str, FileInfo]]:
    """Yield all files below a folder, with their paths below it."""
    try:
        infos = folder.list()
    except NotFoundError:
        return
    for info in infos:
        if info.is_dir:
            yield from files_below(folder / info.name, f"{name}{info.name}/")
        else:
            yield f"{name}{info.name}", info
