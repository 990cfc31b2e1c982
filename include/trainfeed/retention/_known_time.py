"""Whether the clock of this machine may decide what is old enough to be removed.

After a jump of the clock everything looks old at once, and what retention removes is gone for good.
So a run compares its time with what the store and the data set know:

* a file that is written now has the time of the store;
* publications and actions of the history have the times at which they happened. None lies in the
  future, and between two of them, or after the last one, no month passes without any. Every run
  leaves its time in ``RETENTION.json``, so a data set that is pruned every night, and in which
  nothing happens for a year, has no such gap.

A person who knows that the time is right says so with a reason: the history has it, and what was
accepted once is not asked again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NoReturn

from trainfeed.accounts import reason_problem
from trainfeed.dataset.history import Action, record_action
from trainfeed.dataset.sealed_json import text_of
from trainfeed.errors import ConfigError, ConflictError, NotFoundError
from trainfeed.intervals import format_time, parse_time
from trainfeed.paths import is_there, listed_folder
from trainfeed.records import RecordFile
from trainfeed.retention._context import Context
from trainfeed.storage import CLOCK_MARGIN, Location, require_store_clock

__all__ = ["require_known_time"]

_SILENCE: Final = timedelta(days=31)
_NAME: Final = "RETENTION.json"
_ACTION: Final = "clock-accepted"
_NOTHING: Final = "nothing was removed"


@dataclass(frozen=True)
class _LastRun:
    """What the last run of retention knew of the time.

    Attributes:
        at: Its time.
        until: The latest time in the data set; later than ``at`` if a person accepted that.
        dataset: Name of the data set; None in a file of before.
    """

    at: datetime
    until: datetime
    dataset: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "at": format_time(self.at), "until": format_time(self.until)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> _LastRun:
        at, until = parse_time(text_of(value, "at")), parse_time(text_of(value, "until"))
        return cls(at, until, value.get("dataset"))


_FILE: Final = RecordFile(
    _LastRun,
    "the time of the last run of retention",
    f"{_NOTHING}; remove the file, the next run writes it again",
    to_json=_LastRun.to_json,
    from_json=_LastRun.from_json,
)


def require_known_time(context: Context, *, dry_run: bool, accepted: str | None) -> None:
    """Refuse to remove by age while the time may be wrong; write down the time of this run.

    Args:
        context: The data set, and the time of this machine.
        dry_run: Whether nothing is written, and the store's clock is not asked.
        accepted: The reason of a person who says that the time is right, if there is one.

    Raises:
        ConfigError: The reason is too short or too long.
        ConflictError: A time lies in the future, or nothing happened for a month before another.
        FormatError: ``RETENTION.json`` is damaged.
        StorageError: The store has another time, refused or failed.
    """
    if accepted is not None and (problem := reason_problem(accepted)):
        raise ConfigError(f"{problem}; {_NOTHING}")
    if not is_there(context.folder.path):
        return  # nothing was ever planned, so nothing can go, and nothing is written
    if not dry_run:
        staging = Location.parse(str(context.folder.staging / "tmp"))
        require_store_clock(staging, _NOTHING, clock=lambda: context.now)
    last = _FILE.read(_path(context), dataset=context.folder.name)
    times = sorted(_times(context, last))
    doubt = _doubt(context, last, times)
    if doubt is not None and accepted is None:
        _refuse(context, doubt)
    if dry_run:
        return
    if doubt is not None:
        name, why = context.folder.name, str(accepted).strip()
        details = {"doubt": doubt, **({"by": context.account} if context.account else {})}
        made = Action.now(_ACTION, name, why=why, who=context.who, details=details)
        record_action(context.folder, made)
    until = max((context.now, *times))
    _FILE.replace(_path(context), _LastRun(context.now, until, context.folder.name))


def _doubt(context: Context, last: _LastRun | None, times: list[datetime]) -> str | None:
    """Return why the time may be wrong, None if nothing speaks against it."""
    now = context.now
    known = max(now, now if last is None else last.until) + CLOCK_MARGIN
    if last is not None and last.at > now + CLOCK_MARGIN:
        return f"the last run of retention was at {format_time(last.at)}, which is in the future"
    if times and times[-1] > known:
        return f"something happened at {format_time(times[-1])}, which is in the future"
    # Without an earlier run only the time since the newest one counts: older gaps were pauses.
    seen = times[-1:] if last is None else [last.at, *times]
    for before, after in pairwise([*(min(each, now) for each in seen), now]):
        if after - before > _SILENCE:
            days = (after - before).days
            between = f"{format_time(before)} and {format_time(after)}"
            return f"nothing happened for {days} days, between {between}"
    return None


def _refuse(context: Context, doubt: str) -> NoReturn:
    name = context.folder.name
    raise ConflictError(
        f"{name}: expected times that prove the clock of this machine, {format_time(context.now)}:"
        f" {doubt}; {_NOTHING}; if the clock is wrong, set it; if it is right, say so once:"
        f" trainfeed prune {name} --clock-is-right WHY"
    )


def _times(context: Context, last: _LastRun | None) -> Iterator[datetime]:
    """Yield the times of publications and of actions, those since the last run."""
    after = datetime.min.replace(tzinfo=UTC) if last is None else last.at
    look = context.look
    for interval in look.intervals():
        for number in look.generations(interval)[-1:]:
            try:
                published = look.published_at(interval, number)
            except NotFoundError:
                continue
            if published > after:
                yield published.replace(microsecond=0)
    for month in listed_folder(context.folder.history, "[0-9]*"):
        if last is not None and month.name < f"{after:%Y%m}":
            continue
        for path in listed_folder(month, "[0-9]*.json"):
            at = _time_of(path)
            if at is not None and at > after:
                yield at


def _time_of(path: Path) -> datetime | None:
    """Return the time with which the name of an action begins."""
    try:
        return datetime.strptime(path.name[:15], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None


def _path(context: Context) -> Path:
    return context.folder.path / _NAME
