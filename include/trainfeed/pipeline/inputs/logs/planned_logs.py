"""The planned log files of an interval, read, and the proof that they are those of the plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Final

import pyarrow as pa

from trainfeed.core.printable_text import printable
from trainfeed.errors import FormatError, NotFoundError, SourceReplacedError, StorageError
from trainfeed.files.stores import Location
from trainfeed.pipeline.inputs.logs.interval_logs import log_location, logs_folders, logs_of
from trainfeed.pipeline.inputs.row_files import RowRange, iter_rows, kept_layouts
from trainfeed.pipeline.landed_ranges import landing_file
from trainfeed.pipeline.planned_lists import paths_of
from trainfeed.pipeline.plans import PlannedFile, PlannedRange, first_few
from trainfeed.pipeline.stage import Stage
from trainfeed.sources import MISSING, LineRange, iter_lines, list_entries
from trainfeed.specification import LogsSourceSpec, expand_path

# A request or two per file; waiting for the answers takes most of the time.
_THREADS: Final = 8


def check_log_names(stage: Stage, pieces: Iterable[PlannedRange]) -> None:
    """Compare the names in the folder of the interval with the plan, unless all has landed.

    Once in a build: with each task, it would take a time that grows with the square of the number
    of files.

    Args:
        stage: The stage at work.
        pieces: All ranges of the source. If each has a landing file, the folder is not asked: what
            landed is what was planned.

    Raises:
        SourceReplacedError: Files were added or are gone, or the marker is gone; it names them.
        FormatError: An entry was added that is neither a log file nor passed over.
    """
    if _logs(stage).land and all(_landing_of(stage, piece).exists() for piece in pieces):
        return
    _require_marker(stage)
    interval = stage.plan.times
    folders = logs_folders(_logs(stage), stage.env, interval)
    path = expand_path(_logs(stage).path, interval, _logs(stage).zone)
    planned = paths_of(stage.plan.inputs)
    found, logs = set[str](), set[str]()
    try:
        entries = list_entries(folders, _logs(stage).marker)
        entries.require({each.removeprefix(f"{path}/") for each in planned})
    except NotFoundError:
        pass  # its files are gone
    else:
        # An older plan may name a file that is passed over by now: it is there nevertheless.
        found = {f"{path}/{name}" for name in entries.infos}
        logs = {f"{path}/{info.name}" for info in entries.logs}
    problems = [f"{path} was added" for path in sorted(logs - planned)]
    _refuse(stage, problems + [f"{path} is gone" for path in sorted(planned - found)])


def _landing_of(stage: Stage, piece: PlannedRange) -> Location:
    return landing_file(stage.landing, _file(stage, piece.source), piece)


def check_log_files(stage: Stage, sources: Iterable[str]) -> None:
    """Compare files with the plan by all facts.

    Args:
        stage: The stage at work.
        sources: Source strings of the files.

    Raises:
        SourceReplacedError: Files changed, vanished or were replaced; it names them.
    """
    _require_marker(stage)
    files = [_file(stage, source) for source in sorted(sources)]
    with ThreadPoolExecutor(_THREADS, "logs") as pool:
        _refuse(stage, list(chain.from_iterable(pool.map(partial(_problems, stage), files))))


def iter_log(stage: Stage, piece: PlannedRange) -> Iterator[pa.RecordBatch]:
    """Yield the records of one range of a log file.

    The batches are valid only after the iterator has ended without an error.

    Returns:
        Batches of ``LANDING_SCHEMA``, for files of columns with a further column ``fields``; at
        least one row each; they stay valid.

    Raises:
        SourceReplacedError: The file is not the one that was planned.
        FormatError: The file does not decompress, has a line that is too long, or is damaged or of
            another format.
        StorageError: The file cannot be read.
    """
    planned = _file(stage, piece.source)
    _check_file(stage, planned)
    try:
        yield from _records(stage, planned, piece)
    except (FormatError, StorageError):
        # If the file changed meanwhile, the change is the cause, not the damage that was seen.
        _check_file(stage, planned)
        raise
    # A checksum covers the whole file. Asked for each piece of a large file, it would cost one pass
    # over the file per piece; for those, the one check in ``ingest`` has to do.
    _check_file(stage, planned, asks_checksum=piece.end - piece.start == planned.end)
    _require_marker(stage)


def _records(stage: Stage, planned: PlannedFile, piece: PlannedRange) -> Iterator[pa.RecordBatch]:
    location = log_location(stage.env, planned.connection, planned.path)
    if planned.kind is not None:
        rows = RowRange(
            location=location,
            file_format=planned.kind,
            source=piece.source,
            size_bytes=planned.end,
            start=piece.start,
            end=piece.end,
            timestamp_ms=planned.timestamp_ms,
        )
        return iter_rows(rows, kept_layouts(stage.folder, planned), _logs(stage).columns)
    span = LineRange(
        location=location,
        compression=planned.compression,
        size_bytes=planned.end,
        start=piece.start,
        end=piece.end,
        timestamp_ms=planned.timestamp_ms,
        max_line_bytes=_logs(stage).max_line_bytes,
        needs_lf=_logs(stage).cut_line == "fail",
        cuts_long=_logs(stage).long_lines == "quarantine",
    )
    return iter_lines(span)


def _require_marker(stage: Stage) -> None:
    """Refuse a folder whose marker is gone: a writer is at work on the folder again."""
    if stage.plan.marker is None:
        return
    folders = logs_folders(_logs(stage), stage.env, stage.plan.times)
    gone = []
    try:
        bases = folders.found_bases()
    except NotFoundError:
        bases = []  # that its files are gone says more
    for base in bases:
        marker = folders.at(base) / stage.plan.marker
        is_planned = stage.plan.passed_over.get(printable(base)) != MISSING
        if is_planned and not marker.exists() and folders.at(base).exists():
            gone.append(f"{marker.path} was there and is gone, so the folder is not complete")
    _refuse(stage, gone)


def _check_file(stage: Stage, planned: PlannedFile, *, asks_checksum: bool = False) -> None:
    _refuse(stage, _problems(stage, planned, asks_checksum=asks_checksum))


def _problems(stage: Stage, planned: PlannedFile, *, asks_checksum: bool = True) -> list[str]:
    """Return one line when the file is not the planned one."""
    location = log_location(stage.env, planned.connection, planned.path)
    try:
        changes = planned.changes_at(location, asks_checksum=asks_checksum)
    except NotFoundError:
        return [f"{planned.path} is gone"]
    return [f"{planned.path}: {', '.join(changes)}"] if changes else []


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
