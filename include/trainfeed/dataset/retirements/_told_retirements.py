"""What people are told about retired intervals: one line for each decision."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trainfeed.dataset.layout import DatasetFolder, is_name
from trainfeed.dataset.retirements._retirement import Retirement
from trainfeed.dataset.retirements._retirement_file import retirement_of
from trainfeed.dataset.withdrawals import told_withdrawals

__all__ = ["told_missing", "told_retirements"]

_TOLD = 3


def told_retirements(folder: DatasetFolder, names: Iterable[str] | None = None) -> list[str]:
    """Return who retired which intervals, when and why, the first intervals first.

    Args:
        folder: The data set.
        names: Names of intervals; by default all that have a folder.

    Raises:
        StorageError: The publication root refused or failed.
    """
    asked = folder.intervals() if names is None else names
    found = [each for name in asked if is_name(name) and (each := retirement_of(folder, name))]
    decisions: dict[tuple[str, str, str], list[Retirement]] = {}
    for each in found:
        decisions.setdefault((each.who, each.at, each.why), []).append(each)
    return [_told(each) for each in decisions.values()]


def told_missing(folder: DatasetFolder, names: Sequence[str]) -> str:
    """Return who retired or withdrew intervals without a version, for the end of a message, or "".

    Raises:
        StorageError: The publication root refused or failed.
    """
    retired = told_retirements(folder, names)
    withdrawn = [
        each
        for name in names
        if is_name(name)
        and retirement_of(folder, name) is None
        and (each := told_withdrawals(folder, name))
    ]
    told = [*retired, *withdrawn]
    more = f"; and {len(told) - _TOLD} more such decisions" if len(told) > _TOLD else ""
    again = "; a retired interval is built again only with --rebuild 'WHY'" if retired else ""
    return "".join(f"; {each}" for each in told[:_TOLD]) + more + again


def _told(alike: Sequence[Retirement]) -> str:
    first = alike[0]
    if len(alike) == 1:
        return first.told
    return f"{first.told} (and {len(alike) - 1} more intervals up to {alike[-1].interval})"
