"""Checks that an interval can be planned: it has ended and settled, its log files are complete."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder, require_writable_root
from trainfeed.errors import FormatError, StorageError, WindowOpenError
from trainfeed.intervals import Interval, format_time, ready_at
from trainfeed.pipeline.inputs import (
    Absence,
    deadline,
    find_interval_logs,
    is_away,
    logs_folder,
    logs_of,
)
from trainfeed.pipeline.stage import recorded_end
from trainfeed.specification import DatasetSpec
from trainfeed.storage import Location

__all__ = [
    "folder_of_logs",
    "require_closed",
    "require_complete",
    "waits_until",
]


def require_closed(spec: DatasetSpec, interval: Interval, now: datetime) -> None:
    """Refuse an interval that may still get records.

    Args:
        spec: The data set.
        interval: A tick of its schedule.
        now: Aware UTC time.

    Raises:
        WindowOpenError: The interval has not ended and settled yet; ``ready_at`` says when it will.
    """
    settle = spec.source.kind.settle
    ready = ready_at(interval, settle)
    if now >= ready:
        return
    error = WindowOpenError(
        f"interval {interval.name} of data set {spec.name!r} ends at {format_time(interval.end)}"
        f" and settles for {settle}: it can be planned from {format_time(ready)} on;"
        " nothing was read or written; run again then"
    )
    error.ready_at = ready
    raise error


def folder_of_logs(spec: DatasetSpec, interval: Interval, env: Environment) -> Location:
    """Return the folder of the log files of an interval.

    Raises:
        ConfigError: The data set has no log files, or its connection is not defined.
    """
    return logs_folder(logs_of(spec), env, interval)


def require_complete(spec: DatasetSpec, interval: Interval, env: Environment) -> int:
    """Return the number of log files in the complete folder of an interval.

    The number is 0 for a published interval whose folder is not complete or cannot be read any
    more, or whose file system is away (``plan`` decides what that means), and for an interval whose
    wait has ended and that the specification takes as empty or skips.

    Raises:
        LogsMissingError: The folder was not complete in time.
        WindowOpenError: The folder is not complete; or the interval has not ended and settled yet.
        FormatError: The folder holds an entry that cannot be read as a log file.
        RootError: The publication root was not made by ``trainfeed init``.
        StorageError: The file system does not answer.
    """
    require_writable_root(env)
    folder = DatasetFolder(Path(env.root), spec.name)
    with recorded_end(folder, interval.name, "logs"):
        try:
            return len(find_interval_logs(logs_of(spec), env, interval).files)
        except (FormatError, WindowOpenError, StorageError) as error:
            return _without_logs(spec, interval, folder, env, error)


def _without_logs(
    spec: DatasetSpec,
    interval: Interval,
    folder: DatasetFolder,
    env: Environment,
    error: FormatError | WindowOpenError | StorageError,
) -> int:
    """Return 0 for an interval that needs no logs now; raise the error for any other."""
    if isinstance(error, StorageError) and not is_away(error):
        raise error
    now = datetime.now(UTC)
    require_closed(spec, interval, now)
    if folder.current_generation(interval.name) is not None:
        return 0
    if not isinstance(error, WindowOpenError):
        raise error
    place = folder_of_logs(spec, interval, env)
    Absence(spec, interval, place, error, now).require_decided()
    return 0


def waits_until(spec: DatasetSpec, interval: Interval) -> datetime:
    """Return the aware UTC time at which the wait for the logs of an interval ends.

    Raises:
        ConfigError: The data set has no log files.
    """
    return deadline(logs_of(spec), interval)
