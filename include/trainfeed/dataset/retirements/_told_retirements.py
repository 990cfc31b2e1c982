"""What people are told about retired intervals: one line for each decision."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from trainfeed.dataset.layout import DatasetFolder, is_name
from trainfeed.dataset.retirements._retirement import Retirement
from trainfeed.dataset.retirements._retirement_file import retirement_of
from trainfeed.dataset.withdrawals import told_withdrawals

__all__ = ["told_missing", "told_retirements"]

_TOLD: Final = 3
# Most intervals whose files are read for one message: a range may lack ten thousand.
_LOOKED: Final = 20


def told_retirements(folder: DatasetFolder, names: Iterable[str] | None = None) -> list[str]:
    """Return who retired which intervals, when and why, the first intervals first.

    Args:
        folder: The data set.
        names: Names of intervals; by default all that have a folder.

    Raises:
        StorageError: The publication root refused or failed.
    """
    asked = folder.intervals() if names is None else names
    found = (retirement_of(folder, name) for name in asked if is_name(name))
    return _by_decision(filter(None, found))


def told_missing(folder: DatasetFolder, names: Sequence[str]) -> str:
    """Return who retired or withdrew intervals without a version, for the end of a message, or "".

    Decisions about the first such intervals are looked up; the message says how many are not.

    Raises:
        StorageError: The publication root refused or failed.
    """
    # Nobody decided about an interval that has no folder: one listing answers for all of them.
    there = set(folder.intervals())
    decided = [name for name in names if name in there]
    retirements, withdrawn = [], []
    for name in decided[:_LOOKED]:
        if (retired := retirement_of(folder, name)) is not None:
            retirements.append(retired)
        elif told := told_withdrawals(folder, name):
            withdrawn.append(told)
    told_all = [*_by_decision(retirements), *withdrawn]
    more = f"; and {len(told_all) - _TOLD} more such decisions" if len(told_all) > _TOLD else ""
    if (rest := len(decided) - _LOOKED) > 0:
        more += f"; decisions about {rest} further intervals were not looked up"
    return "".join(f"; {each}" for each in told_all[:_TOLD]) + more


def _by_decision(retirements: Iterable[Retirement]) -> list[str]:
    decisions: dict[tuple[str, str, str], list[Retirement]] = {}
    for each in retirements:
        decisions.setdefault((each.who, each.at, each.why), []).append(each)
    return [_told(each) for each in decisions.values()]


def _told(alike: Sequence[Retirement]) -> str:
    first = alike[0]
    if len(alike) == 1:
        return first.told
    return f"{first.told} (and {len(alike) - 1} more intervals up to {alike[-1].interval})"
