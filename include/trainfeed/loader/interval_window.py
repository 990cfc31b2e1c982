"""Rolling windows: the versions of chosen intervals as one data set, and the gaps in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from trainfeed.errors import ConfigError
from trainfeed.readers import DatasetReader, data_at, leased
from trainfeed.versions import AcceptedHole, Coverage, DatasetFolder, Skip


@dataclass(frozen=True)
class IntervalWindow:
    """The versions of a window of intervals.

    Attributes:
        dataset: The samples of these versions, for ``DataLoader``; ``dataset.version`` names the
            versions.
        missing: Names of the intervals of the window that are not published.
        skipped: The intervals of the window that were left out on purpose, with reason and time.
        accepted: The holes between versions in its ranges that a person accepted.
    """

    dataset: DatasetReader
    missing: tuple[str, ...]
    skipped: tuple[Skip, ...] = ()
    accepted: tuple[AcceptedHole, ...] = ()


def open_intervals(  # noqa: PLR0913 - the arguments of open_dataset
    name: str,
    intervals: Sequence[str],
    *,
    split: str,
    missing: str = "fail",
    root: str | Path | None = None,
    lease: timedelta | bool = False,
    cache: str | Path | None = None,
    cache_bytes: int | None = None,
) -> IntervalWindow:
    """Open the current versions of intervals, or those of a tag, in the order given.

    Args:
        name: Name of the data set, or ``NAME@TAG`` for the versions that a tag names.
        intervals: Names of the intervals, as ``Schedule.previous`` lists the last seven, or ranges
            of them in the form that ``open_dataset`` takes.
        split: Name of the split.
        missing: ``fail`` refuses a window with gaps; ``skip`` reads the published ones.
        root: The publication root; ``TRAINFEED_ROOT`` or its default when None; one at a store as
            ``open_dataset`` takes it.
        lease: Whether to keep retention from removing the versions until ``dataset.close()``; see
            ``open_dataset``.
        cache: Folder of the cache for a root at a store; see ``open_dataset``.
        cache_bytes: Most bytes of chunks in it; see ``open_dataset``.

    Raises:
        AccessDeniedError: This account may not write the lease.
        WindowIncompleteError: An interval is not published, and ``missing`` is ``fail``.
        NotFoundError: None of the intervals is published, or the tag does not name one.
        ConflictError: A version of the tag is withdrawn or removed.
        WindowError: A text is not an interval or range, or the schedule has no interval there.
        ConfigError: The versions have different schemas, or there is no such split or policy, or
            ``intervals`` is not a list, is empty, or names an interval twice.
        RootError: The publication root is missing, or the folder is not a publication root.
    """
    if isinstance(intervals, str) or not intervals or len({*intervals}) < len(intervals):
        raise _no_list(intervals)
    with data_at(root, name, *intervals, cache=cache, cache_bytes=cache_bytes, lease=lease) as (
        data,
        remote,
    ):
        found = _joined(data.folder, [data.cover(interval) for interval in intervals])
    names = [
        *(version.path.parent.name for version in found.versions),
        *found.missing,
        *(skip.interval for skip in found.skipped),
    ]
    if len({*names}) < len(names):
        raise _no_list(intervals)
    found.require(missing)
    dataset = DatasetReader(
        found.versions,
        split,
        missing=found.missing,
        skipped=found.skipped,
        accepted=found.accepted,
        remote=remote,
    )
    return IntervalWindow(leased(dataset, lease), found.missing, found.skipped, found.accepted)


def _joined(folder: DatasetFolder, parts: Sequence[Coverage]) -> Coverage:
    asked = [part.asked for part in parts]
    return Coverage(
        folder,
        asked[0] if len(asked) == 1 else f"{asked[0]} … {asked[-1]}",
        tuple(version for part in parts for version in part.versions),
        tuple(gap for part in parts for gap in part.missing),
        tuple(skip for part in parts for skip in part.skipped),
        tuple(run for part in parts for run in part.missing_runs),
        tuple(dict.fromkeys(hole for part in parts for hole in part.accepted)),
        tuple(each for part in parts for each in part.unfit),
    )


def _no_list(intervals: Sequence[str]) -> ConfigError:
    return ConfigError(
        f"expected a list of different intervals, at least one, got {intervals!r}; a range alone is"
        " open_dataset(name, interval='first/last')"
    )
