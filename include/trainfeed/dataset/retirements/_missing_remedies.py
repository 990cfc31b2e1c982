"""What gives readers the intervals that they lack: commands, by what people decided of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trainfeed.dataset.layout import DatasetFolder, is_name
from trainfeed.dataset.retirements._retirement_file import retirement_of
from trainfeed.dataset.withdrawals import Withdrawal, withdrawals
from trainfeed.paths import is_there

__all__ = ["missing_remedies"]

_COMMANDS: Final = 3
# Most intervals whose files are read for one message: a range may lack ten thousand.
_LOOKED: Final = 20


def missing_remedies(
    folder: DatasetFolder, names: Sequence[str], runs: Sequence[str] = (), note: str = ""
) -> list[str]:
    """Return what to do about intervals without a version, each with its commands.

    A withdrawn interval is given back, or built when its cause is corrected: a plain build of it is
    refused. A retired one is built with a reason only. All others are built.

    Args:
        folder: The data set.
        names: Names of the intervals.
        runs: The same, with neighbours joined to ``first/last``; by default ``names``.
        note: What is to be said of builds.

    Raises:
        StorageError: The publication root refused or failed.
    """
    withdrawn, retired = _decided(folder, names)
    gone = {*withdrawn, *retired}
    build = f"trainfeed build {folder.name} --interval"
    back = [f"trainfeed restore {mark.name} --why WHY" for mark in withdrawn.values()]
    again = [f"{build} {name} --rebuild WHY" for name in retired]
    plain = [f"{build} {run}" for run in _without(gone, names, runs or names)]
    its = "its cause" if len(back) == 1 else "their causes"
    parts = {
        f"if it was right after all, give back what was withdrawn, or else correct {its} and build"
        " again": back,
        "build again what was retired, with a reason": again,
        f"build {'it' if len(names) == 1 else 'them'}": plain,
    }
    return [
        f"{what}: {_few(commands)}{note if commands is plain else ''}"
        for what, commands in parts.items()
        if commands
    ]


def _decided(
    folder: DatasetFolder, names: Sequence[str]
) -> tuple[dict[str, Withdrawal], list[str]]:
    """Return the withdrawals that ``restore`` takes back, by interval, and retired intervals."""
    # Nobody decided about an interval that has no folder: one listing answers for all of them.
    there = set(folder.intervals())
    withdrawn, retired = dict[str, Withdrawal](), []
    for name in [each for each in names if each in there and is_name(each)][:_LOOKED]:
        if retirement_of(folder, name) is not None:
            retired.append(name)
        elif marks := [mark for mark in withdrawals(folder, name) if _has_files(folder, mark)]:
            withdrawn[name] = marks[-1]
    return withdrawn, retired


def _has_files(folder: DatasetFolder, mark: Withdrawal) -> bool:
    return is_there(folder.version(mark.interval, mark.generation))


def _without(gone: set[str], names: Sequence[str], runs: Sequence[str]) -> list[str]:
    """Return the runs without the intervals of ``gone``; what is left of a run is taken apart."""
    if not gone:
        return list(runs)
    # Not at the top: most messages need no calendar.
    from trainfeed.intervals import parse_range

    starts = {name: parse_range(name).start for name in names}
    found = []
    for run in runs:
        span = parse_range(run)
        inside = [name for name, start in starts.items() if span.start <= start < span.end]
        found += [name for name in inside if name not in gone] if gone & {*inside} else [run]
    return found


def _few(commands: Sequence[str]) -> str:
    more = len(commands) - _COMMANDS
    return ", ".join(commands[:_COMMANDS]) + (f", and {more} more" if more > 0 else "")
