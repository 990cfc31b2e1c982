"""Whether the log files of an interval can be planned: what a scheduler asks before ``plan``."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from trainfeed.build._closed import require_closed
from trainfeed.build._log_inputs import find_interval_logs, logs_folder
from trainfeed.build._published_inputs import is_away
from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder
from trainfeed.errors import ConfigError, StorageError, WindowOpenError
from trainfeed.spec import DatasetSpec
from trainfeed.storage import Location
from trainfeed.window import Interval

__all__ = ["folder_of_logs", "require_complete"]


def folder_of_logs(spec: DatasetSpec, interval: Interval, env: Environment) -> Location:
    """Return where the log files of an interval are.

    Raises:
        ConfigError: The data set has none, or its connection is not defined.
    """
    if spec.source.logs is None:
        raise ConfigError(f"expected data set {spec.name!r} to have source.logs, it has none")
    return logs_folder(spec.source.logs, env, interval)


def require_complete(spec: DatasetSpec, interval: Interval, env: Environment) -> int:
    """Return how many log files the complete folder of an interval has.

    A folder that is gone is none to wait for when the interval is published: its logs have been
    removed since, and ``plan`` finds the version. Then there are 0, and so there are when the file
    system of the logs does not answer.

    Raises:
        WindowOpenError: The folder is not complete; of an interval that has not ended and settled
            yet, that is the reason.
        FormatError: It has what cannot be read.
        StorageError: The file system does not answer.
    """
    folder = folder_of_logs(spec, interval, env)
    logs = spec.source.logs
    if logs is None:
        return 0
    try:
        return len(find_interval_logs(logs, env, interval))
    except (WindowOpenError, StorageError) as error:
        require_closed(spec, interval, datetime.now(UTC))
        is_gone = isinstance(error, WindowOpenError) and not folder.exists()
        versions = DatasetFolder(Path(env.root), spec.name)
        is_published = versions.current_generation(interval.name) is not None
        if not is_published or not (is_gone or is_away(error)):
            raise
        return 0
