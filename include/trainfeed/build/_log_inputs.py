"""Which log files an interval covers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from trainfeed.build._landing import is_landed
from trainfeed.build._pieces import cut
from trainfeed.build._plan_file import Planned, PlannedFile
from trainfeed.config import Environment
from trainfeed.dataset import Manifest
from trainfeed.dataset.identity import logs_source
from trainfeed.errors import ConfigError, WindowOpenError
from trainfeed.sources import CompleteRule, LogFile, find_logs
from trainfeed.spec import DatasetSpec, LogsSourceSpec, expand_path, logs_root
from trainfeed.storage import Location
from trainfeed.window import Interval

__all__ = ["LogInputs", "find_interval_logs", "log_location", "logs_folder"]


def log_location(env: Environment, connection: str, path: str) -> Location:
    """Return where a path of log files is.

    Raises:
        ConfigError: The connection is not defined.
    """
    place = env.logs.get(connection)
    if place is None:
        raise ConfigError(
            f"connection {connection!r} is not defined, known are {sorted(env.logs)}; define it"
            " (outside of Airflow in the file that TRAINFEED_CONNECTIONS names), or change"
            " source.logs.connection in dataset.yaml"
        )
    return Location.parse(place) / path.lstrip("/")


def logs_folder(logs: LogsSourceSpec, env: Environment, interval: Interval) -> Location:
    """Return the folder of log files of an interval."""
    return log_location(env, logs.connection, expand_path(logs.path, interval))


def find_interval_logs(
    logs: LogsSourceSpec, env: Environment, interval: Interval, *, checksums: bool = False
) -> list[LogFile]:
    """Return the log files of an interval, with checksums only if they are asked for.

    Raises:
        WindowOpenError: Their folder is not complete.
    """
    rule = CompleteRule(logs.marker, logs.stable)
    folder = logs_folder(logs, env, interval)
    return find_logs(folder, rule, datetime.now(UTC), checksums=checksums)


class LogInputs:
    """The log files of one interval, as the planner wants them.

    Args:
        spec: The data set.
        env: Where things are.
        interval: The interval.

    Raises:
        FormatError: The folder has what cannot be read.
        StorageError: The file system does not answer.
    """

    def __init__(self, spec: DatasetSpec, env: Environment, interval: Interval) -> None:
        logs = spec.source.logs
        if logs is None:
            raise ValueError("expected a data set of log files")
        self._logs = logs
        self._env = env
        self._interval = interval
        self._found: dict[str, Planned] = {}
        self._incomplete: WindowOpenError | None = None
        self._is_gone = False
        try:
            files = find_interval_logs(logs, env, interval, checksums=True)
        except WindowOpenError as error:
            self._incomplete = error
            self._is_gone = not logs_folder(logs, env, interval).exists()
        else:
            self._found = dict(self._planned(file) for file in files)

    def inputs(self, current: Manifest | None) -> Mapping[str, Planned]:
        """Return source string → planned file.

        Args:
            current: The published version. What one protocol does not tell is taken from it, where
                the file has the length and time that it had. It speaks for a folder that is gone.

        Raises:
            WindowOpenError: The folder is not complete, and nothing is published.
        """
        if self._incomplete is None:
            old = {} if current is None else current.inputs
            return {source: _filled(file, old.get(source)) for source, file in self._found.items()}
        if current is None or not self._is_gone or not _are_files(current.inputs):
            raise self._incomplete
        return {name: PlannedFile.model_validate(old) for name, old in current.inputs.items()}

    def without_losses(
        self,
        current: Manifest | None,
        allow_gap: str | None,  # noqa: ARG002 - the same question as for topics
    ) -> tuple[Mapping[str, Planned], list[dict[str, Any]]]:
        """Return what will be read, and no gap: a folder has all of its files or is incomplete.

        Raises:
            WindowOpenError: The folder is not complete, or gone while not all of it has landed.
        """
        inputs = self.inputs(current)
        if self._incomplete is not None and not self._is_landed(inputs):
            raise self._incomplete
        return inputs, []

    def empty_because(self, inputs: Mapping[str, Planned]) -> dict[str, str]:
        """Return ``no_bytes`` per file, or ``no_files`` for the folder; none while one has any."""
        if any(planned.start < planned.end for planned in inputs.values()):
            return {}
        folder = expand_path(self._logs.path, self._interval)
        return dict.fromkeys(inputs, "no_bytes") or {logs_source(folder): "no_files"}

    def _is_landed(self, inputs: Mapping[str, Planned]) -> bool:
        landing = Location.parse(self._env.landing)
        pieces = cut(inputs, self._logs.split_bytes)
        return self._logs.land and all(
            is_landed(landing, inputs[piece.source], piece) for piece in pieces
        )

    def _planned(self, file: LogFile) -> tuple[str, PlannedFile]:
        folder = expand_path(self._logs.path, self._interval)
        path = f"{folder}/{file.info.name}"
        planned = PlannedFile(
            connection=self._logs.connection,
            path=path,
            compression=file.compression,
            timestamp_ms=int(self._interval.start.timestamp() * 1000),
            start=0,
            end=file.info.size_bytes,
            modified_ms=file.info.modified_ms,
            file_id=file.info.file_id,
            checksum=file.checksum,
        )
        root = logs_root(self._logs.path).rstrip("/")
        return logs_source(path.removeprefix(f"{root}/")), planned


def _are_files(inputs: Mapping[str, Mapping[str, Any]]) -> bool:
    return all("path" in old for old in inputs.values())


def _filled(planned: Planned, old: Mapping[str, Any] | None) -> Planned:
    """Return the file with the checksum of the published version, where only one side knows it."""
    if old is None or not isinstance(planned, PlannedFile):
        return planned
    same = (planned.end, planned.modified_ms) == (old["end"], old["modified_ms"])
    if same and None in {planned.checksum, old["checksum"]}:
        return planned.model_copy(update={"checksum": old["checksum"]})
    return planned
