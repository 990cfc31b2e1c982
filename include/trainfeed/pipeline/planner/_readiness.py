"""Whether an interval can be planned: it has ended and settled, and its log files are there."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder, require_root
from trainfeed.errors import StorageError, WindowOpenError
from trainfeed.intervals import Interval, format_time, ready_at
from trainfeed.pipeline.inputs import (
    Absence,
    deadline,
    find_interval_logs,
    is_away,
    logs_folder,
    logs_of,
)
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
        WindowOpenError: It has not ended and settled yet; with ``ready_at``.
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
    """Return where the log files of an interval are.

    Raises:
        ConfigError: The data set has none, or its connection is not defined.
    """
    return logs_folder(logs_of(spec), env, interval)


def require_complete(spec: DatasetSpec, interval: Interval, env: Environment) -> int:
    """Return how many log files the complete folder of an interval has.

    A published interval is not waited for: whether its folder is gone or changed, or its file
    system is away, ``plan`` tells. Nor is one whose wait has ended and that the specification
    takes as empty or leaves out. Then there are 0.

    Raises:
        LogsMissingError: The folder was not complete in time.
        WindowOpenError: The folder is not complete; of an interval that has not ended and settled
            yet, that is the reason.
        FormatError: It has what cannot be read.
        RootError: Nobody has made the publication root.
        StorageError: The file system does not answer.
    """
    require_root(Path(env.root), env.root_setting)
    folder = folder_of_logs(spec, interval, env)
    try:
        return len(find_interval_logs(logs_of(spec), env, interval))
    except (WindowOpenError, StorageError) as error:
        if isinstance(error, StorageError) and not is_away(error):
            raise
        now = datetime.now(UTC)
        require_closed(spec, interval, now)
        versions = DatasetFolder(Path(env.root), spec.name)
        if versions.current_generation(interval.name) is not None:
            return 0
        if isinstance(error, StorageError):
            raise
        Absence(spec, interval, folder, error, now).require_decided()
        return 0


def waits_until(spec: DatasetSpec, interval: Interval) -> datetime:
    """Return the aware UTC time until which the logs of an interval are waited for.

    Raises:
        ConfigError: The data set has none.
    """
    return deadline(logs_of(spec), interval)
