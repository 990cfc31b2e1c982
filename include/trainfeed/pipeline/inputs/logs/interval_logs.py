"""The log files of an interval: found, compared with earlier plans, or not complete in time."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any, Final

from trainfeed.core.config import Environment
from trainfeed.core.intervals import Interval, format_time
from trainfeed.errors import (
    ConfigError,
    FormatError,
    LogsMissingError,
    NotFoundError,
    SourceReplacedError,
    StorageError,
    WindowOpenError,
)
from trainfeed.files.stores import Location
from trainfeed.pipeline.inputs.line_fields import CSV, read_headers
from trainfeed.pipeline.inputs.row_files import LAID_OUT, keep_layouts, read_layouts
from trainfeed.pipeline.inputs.topics import Awaited
from trainfeed.pipeline.landed_ranges import is_landed
from trainfeed.pipeline.plans import (
    Planned,
    PlannedFile,
    cut,
    earlier_plans,
    first_few,
    unit_of_input,
)
from trainfeed.sources import (
    CompleteRule,
    FolderEntries,
    FolderTree,
    FoundLogs,
    LogFile,
    find_logs,
    is_bare,
    list_entries,
)
from trainfeed.sources.log_folders import LINES
from trainfeed.specification import (
    DatasetSpec,
    LogsSourceSpec,
    MissingRule,
    expand_path,
    log_paths_of,
    logs_root,
)
from trainfeed.versions import DatasetFolder, Manifest, Skip
from trainfeed.versions.order import logs_source, split_member

# --- Decides about an interval whose folder of logs is not complete in time

_NEIGHBOURS: Final = 3


def logs_of(spec: DatasetSpec) -> LogsSourceSpec:
    """Return the part ``source.logs`` of a specification.

    Raises:
        ConfigError: The data set has no log files.
    """
    if spec.source.logs is None:
        raise ConfigError(f"expected data set {spec.name!r} to have source.logs, it has none")
    return spec.source.logs


def awaited_logs(spec: DatasetSpec, interval: Interval) -> Awaited:
    """Return the wait for the folder of an interval.

    Raises:
        ConfigError: The data set has no log files.
    """
    logs = logs_of(spec)
    return Awaited.of(spec, interval, logs.setting, MissingRule(logs.wait, logs.missing))


class Absence:
    """An interval whose folder is not complete, and the rule of the specification for that case.

    Args:
        spec: A data set of log files.
        interval: The interval.
        folders: Folders of the interval.
        incomplete: The error that says what is missing.
        now: Aware UTC time.
    """

    def __init__(
        self,
        spec: DatasetSpec,
        interval: Interval,
        folders: FolderTree,
        incomplete: WindowOpenError,
        now: datetime,
    ) -> None:
        self._logs = logs_of(spec)
        self._awaited = awaited_logs(spec, interval)
        self._folders = folders
        self._incomplete = incomplete
        self._now = now

    def require_decided(self) -> None:
        """Refuse an interval whose wait has not ended, or that may not be missing.

        Raises:
            WindowOpenError: The wait has not ended.
            LogsMissingError: The wait has ended, and the specification neither takes the interval
                as empty nor skips it.
        """
        if not self._awaited.is_over(self._now):
            raise self._incomplete
        if self._logs.missing == "fail":
            raise self._missing(f"decide with {self._logs.setting}.missing: empty or skip")
        if self._logs.missing == "empty" and not is_bare(self._folders):
            raise self._missing(
                "'missing: empty' speaks only for a folder that is not there or holds nothing"
            )

    def skip(self) -> Skip | None:
        """Return the decision to skip the interval, or None if the rule is another.

        Raises:
            WindowOpenError: The wait has not ended, or the logs are there and only time is missing.
            LogsMissingError: The wait has ended, and the interval may not be missing.
        """
        self.require_decided()
        if self._logs.missing != "skip":
            return None
        if self._incomplete.ready_at is not None:
            # The logs are there: to skip the interval would lose them.
            raise self._incomplete
        why = f"folder {self._path} of {self._logs.connection} is not complete: {self._why()}"
        return self._awaited.skip(why, self._now)

    def empty_because(self) -> dict[str, str]:
        """Return folder → why the interval is published empty; the text is equal in every run.

        Raises:
            WindowOpenError: The wait has not ended.
            LogsMissingError: The wait has ended, and the interval may not be empty.
        """
        self.require_decided()
        if self._logs.missing != "empty":
            raise self._incomplete
        return {self._path: f"missing: {self._why()}"}

    @property
    def _path(self) -> str:
        """The folder as the specification names it, independent of the connection."""
        return expand_path(self._logs.path, self._awaited.interval, self._logs.zone)

    def _why(self) -> str:
        return f"{self._incomplete.reason}; {self._awaited.since}"

    def _missing(self, remedy: str) -> LogsMissingError:
        awaited = self._awaited
        since, until = map(format_time, (awaited.ready_at, awaited.until))
        found = f"folder {self._folders.top.uri} is not complete: {self._incomplete.reason}"
        found = "; ".join([found, *self._beside()])
        ready = self._incomplete.ready_at
        if ready is None:
            advice = f"let them be written and run again, or {remedy}"
        else:  # the logs are there, and leaving them out would lose them
            advice = f"only time is missing: run again after {format_time(ready)}"
        return LogsMissingError(
            f"expected the logs of {awaited.dataset}/{awaited.interval.name}, waited for from"
            f" {since} to {until} ({self._logs.setting}.wait), got none: {found}; nothing was read"
            f" or written; {advice}"
        )

    def _beside(self) -> Iterator[str]:
        """Yield the names beside the missing folder: they show a misspelt path."""
        parent, wanted = self._folders.top, ""
        try:
            while not parent.exists() and parent.name:
                parent, wanted = parent.parent, parent.name
            names = [info.name for info in parent.list()] if wanted else []
        except StorageError:
            return  # the message is complete without the names, which only help to find the cause
        digits = _digits(wanted)
        same = [name for name in names if digits and _digits(name) == digits]
        near = same or get_close_matches(wanted, names, _NEIGHBOURS, cutoff=0.0)
        if near:
            right = f", of the same digits: is {self._logs.setting}.path right?"
            hint = right if same else ""
            yield f"{parent.uri} has {', '.join(sorted(near))}{hint}"
        elif wanted:
            yield f"{parent.uri} is empty"


def _digits(text: str) -> str:
    return "".join(filter(str.isdigit, text))


# --- Finds log files that are gone, or shorter than in an earlier plan of the interval


def refuse_cut(folder: Location, inputs: Iterable[PlannedFile]) -> None:
    """Refuse compressed files of 0 bytes: a compressed file has a header even without any line.

    Raises:
        FormatError: There are such files; the message names them.
    """
    empty = (each for each in inputs if each.compression != "none" and not each.end)
    names = [each.path.rpartition("/")[2] for each in empty]
    if names:
        raise FormatError(
            "expected compressed files as their names say, got files of 0 bytes, as a"
            f" writer leaves them that was killed at its start: {first_few(names)}; nothing was"
            " read or published;"
            " write them again; if no line is missing, remove or hide them: names that begin with"
            " '_' are not read",
            path=folder.uri,
        )


def require_whole(
    folder: DatasetFolder,
    interval: Interval,
    path: str,
    inputs: Mapping[str, Planned],
    allow_gap: str | None,
    *,
    member: str | None = None,
) -> list[dict[str, Any]]:
    """Compare the files with those that earlier plans of the interval saw in the same folder.

    Args:
        folder: The data set below the publication root.
        interval: An interval that is not published.
        path: The folder of logs, as the specification names it.
        inputs: The files of now.
        allow_gap: The reason given for accepting a gap, or None to refuse it.
        member: Name of the member of a union; None for a source that is no member.

    Returns:
        One gap per file that is gone or shorter: ``source``, ``start`` and ``end`` of the missing
        bytes in the stored file, and ``why``.

    Raises:
        SourceReplacedError: There are gaps, and ``allow_gap`` is None; the message names the files.
    """
    seen = _largest(folder, interval, f"{path}/", member)
    gaps = [
        {"source": source, "start": length, "end": old.end, "why": allow_gap}
        for source, old in sorted(seen.items())
        if (length := _length(inputs.get(source))) < old.end
    ]
    if gaps and allow_gap is None:
        lines = list(_lines(gaps, seen, inputs))
        raise SourceReplacedError(
            f"the folder of logs of {folder.name}/{interval.name} has less than an earlier plan"
            f" saw: {first_few(lines)}; nothing was read or published; restore the files, or, to"
            " build from what is there now, run again with --allow-gap WHY (Airflow: parameter"
            " 'allow_gap')"
        )
    return gaps


def _largest(
    folder: DatasetFolder, interval: Interval, prefix: str, member: str | None
) -> dict[str, PlannedFile]:
    seen: dict[str, PlannedFile] = {}
    for plan in earlier_plans(folder, interval.name):
        for name, old in plan.inputs.items():
            owner, source = split_member(name)
            if owner != member:
                continue
            if not isinstance(old, PlannedFile) or not old.path.startswith(prefix):
                continue
            if old.end > _length(seen.get(source)):
                seen[source] = old
    return seen


def _lines(
    gaps: list[dict[str, Any]], seen: Mapping[str, PlannedFile], inputs: Mapping[str, Planned]
) -> Iterator[str]:
    for gap in gaps:
        old = seen[gap["source"]]
        now = inputs.get(gap["source"])
        found = "gone" if now is None else f"length {old.end} → {now.end}"
        yield f"{old.path}: {found}"


def _length(planned: Planned | None) -> int:
    return 0 if planned is None else planned.end


# --- The log files that an interval reads

logger = logging.getLogger(__name__)


def log_location(env: Environment, connection: str, path: str) -> Location:
    """Return the location of a path of log files.

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


def logs_folders(logs: LogsSourceSpec, env: Environment, interval: Interval) -> FolderTree:
    """Return the folders of log files of an interval."""
    paths = log_paths_of(logs.path, interval, logs.zone)
    top = log_location(env, logs.connection, paths.top)
    file_format = LINES if logs.is_of_lines else logs.format
    return FolderTree(top, paths.bases, paths.below, file_format)


def find_interval_logs(
    spec: DatasetSpec, env: Environment, interval: Interval, *, checksums: bool = False
) -> FoundLogs:
    """Return the log files of an interval, with checksums only if ``checksums``.

    Raises:
        WindowOpenError: A folder is not complete.
        FormatError: A folder has an entry that is neither a log file nor passed over.
    """
    logs, now = logs_of(spec), datetime.now(UTC)
    rule = CompleteRule(logs.marker, logs.stable)
    return find_logs(
        logs_folders(logs, env, interval),
        rule,
        now,
        checksums=checksums,
        passes_bare=logs.missing == "empty" and awaited_logs(spec, interval).is_over(now),
    )


class LogInputs:
    """The log files of one interval, as ``Inputs`` of the planner.

    Args:
        spec: The data set.
        env: Folders and connections.
        folder: The data set below the publication root.
        interval: The interval.

    Attributes:
        marker: Name of the file that marked the folder as complete; None if there was none.
        passed_over: Name → reason of every entry of the folder that is not read.

    Raises:
        StorageError: The file system does not answer.
    """

    def __init__(
        self, spec: DatasetSpec, env: Environment, folder: DatasetFolder, interval: Interval
    ) -> None:
        logs = logs_of(spec)
        self._logs = logs
        self._member = spec.member
        self._env = env
        self._folder = folder
        self._interval = interval
        self._folders = logs_folders(logs, env, interval)
        self._paths = log_paths_of(logs.path, interval, logs.zone)
        self._root = logs_root(logs.path).rstrip("/")
        self._absence: Absence | None = None
        self._incomplete: WindowOpenError | None = None
        self._entries: FolderEntries | None = None
        files: list[LogFile] = []
        try:
            found = find_interval_logs(spec, env, interval, checksums=True)
            files, self._entries = found.files, found.entries
        except (FormatError, WindowOpenError) as error:
            # No error yet: the interval may be published already, or the rule may skip it.
            if isinstance(error, WindowOpenError):
                self._incomplete = error
                self._absence = Absence(spec, interval, self._folders, error, datetime.now(UTC))
            with suppress(NotFoundError):
                self._entries = list_entries(self._folders, logs.marker)
            if self._incomplete is None and not (self._entries and self._entries.refused):
                raise  # the folder has changed meanwhile
            if self._entries is not None:
                files = [LogFile.of(info) for info in self._entries.logs]
        self._found = dict(self._planned(file) for file in files)
        self.marker = logs.marker if self._incomplete is None else None
        self.passed_over: Mapping[str, str] = {}
        if self._entries is not None:
            self.passed_over = self._entries.passed_over

    def inputs(self, current: Manifest | None) -> Mapping[str, PlannedFile]:
        """Return source string → planned file.

        Args:
            current: The published version, or None. A file with the same length and time as in it
                takes its checksum from it, if the protocol gives none. If the folder is gone, its
                inputs are returned. What it read stays an input, although it would be passed over
                or refused by now: the version is what it was.

        Raises:
            WindowOpenError: The folder is not complete, and no version of log files is published.
            FormatError: The folder has an entry that is neither a log file nor passed over.
        """
        old = {} if current is None else current.inputs
        if self._incomplete is not None:
            if current is None or not _are_files(old):
                raise self._incomplete
            if self._entries is None:
                return {name: PlannedFile.model_validate(each) for name, each in old.items()}
        others = {source: file for source, file in self._others().items() if source in old}
        are_refused = self._are_refused(old)
        if others or are_refused:
            logger.warning(
                "%s of the published version of %s would not be read by now, and stays in it:"
                " see the rules for folders of logs; a rebuild leaves it out, or stops",
                first_few(sorted(others)) or "a file",
                self._interval.name,
            )
        found = self._found | others
        return {source: _filled(file, old.get(source)) for source, file in found.items()}

    def skip(self) -> Skip | None:
        """Return the decision to skip the interval, or None if it is built.

        Raises:
            WindowOpenError: The folder is not complete, and the wait for it has not ended.
            LogsMissingError: The folder was not complete in time, and may not be missing.
        """
        return None if self._absence is None else self._absence.skip()

    def without_losses(
        self,
        current: Manifest | None,
        allow_gap: str | None,
    ) -> tuple[Mapping[str, PlannedFile], list[dict[str, Any]]]:
        """Return the files to read, and the gaps: bytes that an earlier plan saw, gone by now.

        Raises:
            WindowOpenError: The folder is not complete, or is gone and not all of it has landed.
            LogsMissingError: The folder was not complete in time, and may not be missing.
            FormatError: A compressed file is empty, an entry of the folder is neither a log file
                nor passed over, or the columns of a file cannot be read with those of the others.
            ConfigError: Columns are not there, or have a type that is not read.
            SourceReplacedError: An earlier plan saw more files or bytes in the folder.
        """
        inputs, gaps = self._found_whole(current, allow_gap)
        return self._with_layouts(inputs), gaps

    def _found_whole(
        self, current: Manifest | None, allow_gap: str | None
    ) -> tuple[Mapping[str, PlannedFile], list[dict[str, Any]]]:
        if current is None and self._absence is not None:
            self._absence.empty_because()
            return {}, []
        inputs = self.inputs(current)
        if self._incomplete is not None:
            if current is None or self._entries is not None or not self._is_landed(inputs):
                raise self._incomplete
            self.passed_over = current.passed_over
        elif self._entries is not None:
            self._entries.require()
            inputs = {source: file for source, file in inputs.items() if source in self._found}
        refuse_cut(self._folders.top, inputs.values())
        if current is not None:
            return inputs, []  # the reason of a rebuild covers files that changed or are gone
        # What is passed over by now is not lost.
        there = {**self._others(), **inputs}
        gaps = require_whole(
            self._folder, self._interval, self._top, there, allow_gap, member=self._member
        )
        return inputs, gaps

    def _with_layouts(self, inputs: Mapping[str, PlannedFile]) -> Mapping[str, PlannedFile]:
        """Return the files with the digest of their layouts, which are read and kept."""
        logs, read = self._logs, read_layouts
        if logs.format == CSV:
            read = read_headers
        elif logs.format not in LAID_OUT:
            return inputs
        if not inputs or self._entries is None:
            return inputs
        files = {
            source: (log_location(self._env, each.connection, each.path), each)
            for source, each in inputs.items()
        }
        digest = keep_layouts(self._folder, read(logs, files))
        return {
            source: each.model_copy(update={"layouts": digest}) for source, each in inputs.items()
        }

    def confirm(self) -> None:
        """Do nothing: a folder of logs has no boundary."""

    def empty_because(
        self,
        inputs: Mapping[str, Planned],
        allow_gap: str | None,  # noqa: ARG002 - the rule of the folder decides about missing files
    ) -> dict[str, str]:
        """Return, by source, why nothing is read; an empty mapping if any file has bytes.

        The reasons are ``no_bytes`` per file, ``no_files`` for a complete folder without files,
        and ``missing: …`` for a folder that is not complete and taken as empty.
        """
        if any(planned.start < planned.end for planned in inputs.values()):
            return {}
        if self._absence is not None and not inputs:
            return self._absence.empty_because()
        return dict.fromkeys(inputs, "no_bytes") or {logs_source(self._top): "no_files"}

    @property
    def _top(self) -> str:
        """The folder below which all folders lie, as the specification names it."""
        return self._paths.top

    def _others(self) -> dict[str, PlannedFile]:
        """Return the files that are passed over, as if they were read."""
        if self._entries is None:
            return {}
        logs = {info.name for info in self._entries.logs}
        infos = [info for name, info in self._entries.infos.items() if name not in logs]
        # What cannot be printed was never read, and has no place in a plan.
        files = [info for info in infos if not info.is_dir and info.name.isprintable()]
        return dict(self._planned(LogFile.of(info)) for info in files)

    def _are_refused(self, old: Mapping[str, Mapping[str, Any]]) -> bool:
        """Return whether entries are refused that the published version has read.

        Raises:
            FormatError: Others are refused, too.
        """
        if self._entries is None or not self._entries.refused:
            return False
        paths = [each["path"] for each in old.values() if "path" in each]
        self._entries.require({path.removeprefix(f"{self._top}/") for path in paths})
        return True

    def _is_landed(self, inputs: Mapping[str, Planned]) -> bool:
        landing = Location.parse(self._env.landing)
        pieces = cut(inputs, self._logs.split_bytes)
        return self._logs.land and all(
            is_landed(landing, inputs[piece.source], piece) for piece in pieces
        )

    def _planned(self, file: LogFile) -> tuple[str, PlannedFile]:
        path = f"{self._top}/{file.info.name}"
        time = self._paths.time_of(file.info.name)
        planned = PlannedFile(
            kind=None if self._logs.is_of_lines else self._logs.format,
            connection=self._logs.connection,
            path=path,
            compression=file.compression,
            timestamp_ms=int(time.timestamp() * 1000),
            start=0,
            end=file.info.size_bytes,
            modified_ms=file.info.modified_ms,
            file_id=file.info.file_id,
            checksum=file.checksum,
        )
        return logs_source(path.removeprefix(f"{self._root}/")), planned


def _are_files(inputs: Mapping[str, Mapping[str, Any]]) -> bool:
    return all(unit_of_input(old) == "bytes" for old in inputs.values())


def _filled(planned: PlannedFile, old: Mapping[str, Any] | None) -> PlannedFile:
    """Return the file with the checksum of the published version if only one side has one."""
    if old is None:
        return planned
    same = (planned.end, planned.modified_ms) == (old["end"], old["modified_ms"])
    if same and None in {planned.checksum, old["checksum"]}:
        return planned.model_copy(update={"checksum": old["checksum"]})
    return planned
