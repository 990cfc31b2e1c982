"""Rolling windows: the versions of chosen intervals as one data set, and the gaps in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trainfeed.dataset import DatasetFolder, Version, published_root
from trainfeed.errors import ConfigError, NotFoundError, WindowIncompleteError
from trainfeed.readers import DatasetReader

__all__ = ["IntervalWindow", "open_intervals"]

_POLICIES = ("fail", "list")


@dataclass(frozen=True)
class IntervalWindow:
    """The versions of a window of intervals.

    Attributes:
        dataset: Their samples, for ``DataLoader``; ``dataset.version`` names the versions.
        missing: Names of the intervals of the window that are not published.
    """

    dataset: DatasetReader
    missing: tuple[str, ...]


def open_intervals(
    name: str,
    intervals: Sequence[str],
    *,
    split: str,
    missing: str = "fail",
    root: str | Path | None = None,
) -> IntervalWindow:
    """Open the current versions of intervals, in the order given.

    Args:
        name: Name of the data set.
        intervals: Names of the intervals, as ``Schedule.previous`` lists the last seven.
        split: Name of the split.
        missing: ``fail`` refuses a window with gaps; ``list`` reads what is there.
        root: The publication root; ``TRAINFEED_ROOT`` or its default when None.

    Raises:
        WindowIncompleteError: An interval is not published, and ``missing`` is ``fail``.
        NotFoundError: None of them is published.
        ConfigError: The versions have different schemas, or there is no such split or policy, or
            the intervals are no list of different ones.
        RootError: The publication root is not there, or is none.
    """
    if missing not in _POLICIES:
        raise ConfigError(f"expected missing as one of {', '.join(_POLICIES)}, got {missing!r}")
    if isinstance(intervals, str) or not intervals or len({*intervals}) < len(intervals):
        raise ConfigError(
            f"expected a list of different intervals, at least one, got {intervals!r}; a range is"
            " open_dataset(name, interval='first/last')"
        )
    folder = DatasetFolder(published_root(root), name)
    generations = {interval: folder.readable_generation(interval) for interval in intervals}
    gaps = tuple(interval for interval, found in generations.items() if found is None)
    if gaps and missing == "fail":
        raise WindowIncompleteError(
            f"data set {name!r} lacks {len(gaps)} of {len(generations)} intervals of the window:"
            f" {', '.join(gaps)}; build them, or read what is there with missing='list'"
        )
    versions = [
        Version.resolve(folder, interval, generation)
        for interval, generation in generations.items()
        if generation is not None
    ]
    if not versions:
        raise NotFoundError(f"data set {name!r} has no published version of {', '.join(gaps)}")
    return IntervalWindow(DatasetReader(versions, split), gaps)
