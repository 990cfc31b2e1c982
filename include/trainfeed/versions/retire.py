"""Retired intervals: all their versions are removed for good; ``RETIRED.json`` says why.

Also what readers of such intervals are told, with the commands that give them the data again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from trainfeed.core import faults
from trainfeed.core.accounts import NOBODY, Decided
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.files import is_there
from trainfeed.files.records import RecordFile
from trainfeed.versions.layout import DatasetFolder, is_name
from trainfeed.versions.withdraw import Withdrawal, told_withdrawals, withdrawals

# --- A retirement: who removed all versions of an interval, when and why


@dataclass(frozen=True)
class Retirement(Decided, without=("damage",)):
    """The end of an interval.

    Attributes:
        interval: Name of the interval.
        last_generation: The largest number that a generation of it had; later ones are larger.
        damage: Why the file cannot be read; None if it can. The interval is retired all the same.
        dataset: Name of the data set; None in a file of before.
    """

    interval: str
    last_generation: int
    damage: str | None = None
    dataset: str | None = field(default=None, compare=False, repr=False)

    @property
    def told(self) -> str:
        """Who, when and why, for messages."""
        if self.damage is not None:
            return f"{self.interval} was retired; who and why cannot be told: {self.damage}"
        return f"{self.interval} was retired at {self.at} by {self.by}: {self.why}"


# --- The file ``versions/<interval>/RETIRED.json``

_FILE: Final = RecordFile(
    Retirement,
    "the retirement of an interval",
    "the interval counts as retired; build it again with --rebuild 'WHY'",
)


def write_retirement(folder: DatasetFolder, retirement: Retirement) -> None:
    """Write the retirement of an interval, in place of that of an earlier life of it.

    Raises:
        StorageError: The publication root refused or failed.
    """
    named = replace(retirement, dataset=folder.name)
    _FILE.replace(folder.retirement(retirement.interval), named)
    faults.point("retirement.after_file")


def lift_retirement(folder: DatasetFolder, interval: str) -> None:
    """Remove the retirement of an interval that stays after all; the history keeps it.

    Raises:
        StorageError: The publication root refused or failed.
    """
    _FILE.lift(folder.retirement(interval))


def retirement_of(folder: DatasetFolder, interval: str) -> Retirement | None:
    """Return the retirement that is in force, or None.

    Raises:
        StorageError: The publication root refused or failed.
    """
    last = folder.last_generation(interval)
    numbers = range(1, last + 1)
    if any(folder.has_folder(interval, n) and not folder.is_removed(interval, n) for n in numbers):
        return None
    return begun_retirement(folder, interval)


def begun_retirement(folder: DatasetFolder, interval: str) -> Retirement | None:
    """Return the retirement of the present generations, in force or not; None if there is none.

    Raises:
        StorageError: The publication root refused or failed.
    """
    last = folder.last_generation(interval)
    path = folder.retirement(interval)
    try:
        found = _FILE.read(path, interval=interval, dataset=folder.name)
    except FormatError as error:
        return Retirement(interval, last, **NOBODY, damage=str(error))
    return None if found is None or found.last_generation < last else found


# --- What gives readers the intervals that they lack: commands, by what people decided of each

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
    from trainfeed.core.intervals import parse_range

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


# --- What people are told about retired intervals: one line for each decision

_TOLD: Final = 3


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


# --- The error of readers that ask for an interval of which people decided that it has no version


def generation_for_readers(folder: DatasetFolder, interval: str) -> int:
    """Return the generation for readers; where there is none, say who retired or withdrew it.

    Raises:
        NotFoundError: The interval has no readable version.
    """
    try:
        return folder.require_generation(interval)
    except NotFoundError as error:
        told = told_missing(folder, [interval])
        if not told:
            raise
        raise NotFoundError(
            f"data set {folder.name!r} has no version of {interval} for readers{told};"
            f" {'; '.join(missing_remedies(folder, [interval]))}"
        ) from error
