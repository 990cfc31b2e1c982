"""Reads the planned log files, and makes sure that they are those of the plan.

A file is compared with the plan before and after it is read, so the result is either the planned
content or an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pyarrow as pa

from trainfeed.errors import FormatError, NotFoundError, SourceReplacedError, StorageError
from trainfeed.intervals import Interval, parse_time
from trainfeed.pipeline.inputs._log_absence import logs_of
from trainfeed.pipeline.inputs._log_inputs import log_location, logs_folder
from trainfeed.pipeline.plans import PlannedFile, PlannedRange, first_few
from trainfeed.pipeline.stage import Stage
from trainfeed.sources import LineRange, iter_lines, list_entries
from trainfeed.specification import LogsSourceSpec, expand_path
from trainfeed.storage import FileInfo

__all__ = ["check_folder", "iter_log"]

# A request or two per file; waiting for the answers takes most of the time.
_THREADS: Final = 8


def check_folder(stage: Stage, sources: Iterable[str]) -> None:
    """Compare the folder of the interval with the plan.

    Args:
        stage: The stage at work.
        sources: Sources whose files are compared by all facts; the others are compared by name.

    Raises:
        SourceReplacedError: Files changed, vanished, were replaced or added; it names them.
        FormatError: An entry was added that is neither a log file nor passed over.
    """
    inputs = {source: _file(stage, source) for source in stage.plan.inputs}
    interval = _interval(stage)
    folder = logs_folder(_logs(stage), stage.env, interval)
    path = expand_path(_logs(stage).path, interval)
    _require_marker(stage)
    planned = {i.path: i for i in inputs.values()}
    try:
        entries = list_entries(folder, _logs(stage).marker)
        entries.require({each.rpartition("/")[2] for each in planned})
    except NotFoundError:
        found, logs = {}, set()
    else:
        # An older plan may name a file that is passed over by now: it is there nevertheless.
        found = {f"{path}/{name}": info for name, info in entries.infos.items()}
        logs = {f"{path}/{info.name}" for info in entries.logs}
    problems = [f"{path} was added" for path in sorted(logs - planned.keys())]
    problems += [f"{path} is gone" for path in sorted(planned.keys() - found.keys())]
    # Names come from one listing; the other facts of a file take a request or two.
    known = [inputs[source] for source in sorted(sources) if inputs[source].path in found]
    with ThreadPoolExecutor(_THREADS, "logs") as pool:
        for changes in pool.map(lambda file: _changes(stage, file, found[file.path]), known):
            problems += changes
    _refuse(stage, problems)


def iter_log(stage: Stage, piece: PlannedRange) -> Iterator[pa.RecordBatch]:
    """Yield the records of one range of a log file.

    The batches are valid only after the iterator has ended without an error.

    Returns:
        Batches of ``LANDING_SCHEMA``, at least one row each; they stay valid.

    Raises:
        SourceReplacedError: The file is not the one that was planned.
        FormatError: The file does not decompress, or has a line that is too long.
        StorageError: The file cannot be read.
    """
    planned = _file(stage, piece.source)
    span = LineRange(
        location=log_location(stage.env, planned.connection, planned.path),
        compression=planned.compression,
        size_bytes=planned.end,
        start=piece.start,
        end=piece.end,
        timestamp_ms=planned.timestamp_ms,
        max_line_bytes=_logs(stage).max_line_bytes,
        needs_lf=_logs(stage).cut_line == "fail",
    )
    _check_file(stage, planned)
    try:
        yield from iter_lines(span)
    except (FormatError, StorageError):
        # If the file changed meanwhile, the change is the cause, not the damage that was seen.
        _check_file(stage, planned)
        raise
    # A checksum covers the whole file. Asked for each piece of a large file, it would cost one pass
    # over the file per piece; for those, the one check in ``ingest`` has to do.
    _check_file(stage, planned, asks_checksum=piece.end - piece.start == planned.end)
    _require_marker(stage)


def _require_marker(stage: Stage) -> None:
    """Refuse a folder whose marker is gone: a writer is at work on the folder again."""
    if stage.plan.marker is None:
        return
    folder = logs_folder(_logs(stage), stage.env, _interval(stage))
    marker = folder / stage.plan.marker
    if not marker.exists() and folder.exists():
        _refuse(stage, [f"{marker.path} was there and is gone, so the folder is not complete"])


def _check_file(stage: Stage, planned: PlannedFile, *, asks_checksum: bool = False) -> None:
    location = log_location(stage.env, planned.connection, planned.path)
    try:
        info = location.stat()
    except NotFoundError:
        _refuse(stage, [f"{planned.path} is gone"])
    else:
        _refuse(stage, _changes(stage, planned, info, asks_checksum=asks_checksum))


def _changes(
    stage: Stage, planned: PlannedFile, info: FileInfo, *, asks_checksum: bool = True
) -> list[str]:
    """Return one line when the file is not the planned one."""
    now = {
        "end": info.size_bytes,
        "modified_ms": info.modified_ms,
        "file_id": info.file_id,
        "checksum": None,
    }
    changes = _found(planned, now)
    if asks_checksum and not changes and planned.checksum is not None:
        location = log_location(stage.env, planned.connection, planned.path)
        changes = _found(planned, {**now, "checksum": location.checksum()})
    return [f"{planned.path}: {', '.join(changes)}"] if changes else []


def _found(planned: PlannedFile, now: Mapping[str, object]) -> list[str]:
    return planned.model_copy(update=now).changes(planned.model_dump())


def _refuse(stage: Stage, problems: list[str]) -> None:
    if problems:
        raise SourceReplacedError(
            f"log files of {stage.plan.dataset}/{stage.plan.interval['name']} are not those that"
            f" were planned: {first_few(problems)}; nothing was published; run the build again to"
            " build from what is there now"
        )


def _file(stage: Stage, source: str) -> PlannedFile:
    planned = stage.plan.inputs[source]
    if not isinstance(planned, PlannedFile):
        raise TypeError(f"expected {source} to be a log file")
    return planned


def _logs(stage: Stage) -> LogsSourceSpec:
    return logs_of(stage.spec)


def _interval(stage: Stage) -> Interval:
    start, end = (parse_time(stage.plan.interval[edge]) for edge in ("start", "end"))
    return Interval(start, end, stage.plan.interval["name"])
