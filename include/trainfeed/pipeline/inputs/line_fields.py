"""Lines with fields: the headers of files of CSV, and what reads the lines of a planned file.

The header of a file is read once, when an interval is planned, and is kept with the layouts of the
interval: a task that begins in the middle of a file has it from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from difflib import get_close_matches
from typing import Final

from trainfeed.errors import ConfigError, FormatError
from trainfeed.files.stores import Location
from trainfeed.pipeline.inputs.row_files import FileLayout, Layouts, kept_headers
from trainfeed.pipeline.plans import Planned, PlannedFile
from trainfeed.pipeline.stage import Stage
from trainfeed.sources import LineRange, iter_lines
from trainfeed.specification import LogsSourceSpec
from trainfeed.specification.line_formats import CsvSpec
from trainfeed.value_formats import CsvDialect, CsvLines, JsonLines, LineReader, csv_header

CSV: Final = "csv"
# Why the first line of a file of CSV is filtered.
HEADER: Final = "header"
# One small read per file; waiting for the answers takes most of the time.
_THREADS: Final = 8
_MOST_SHOWN: Final = 3


def read_headers(
    logs: LogsSourceSpec, files: Mapping[str, tuple[Location, PlannedFile]]
) -> Layouts:
    """Read the headers of the files of an interval.

    Args:
        logs: The specification of the source, of lines of CSV.
        files: Source string → location and facts of every file.

    Returns:
        Layouts whose ``columns`` are the headers; a file without bytes has none.

    Raises:
        FormatError: A file has no header, or another one than the first file.
        ConfigError: The header lacks a field of the specification.
        StorageError: A file cannot be read.
    """
    names = sorted(files, key=str.encode)
    with ThreadPoolExecutor(_THREADS, "headers") as pool:
        headers = list(pool.map(lambda name: _header(logs, *files[name]), names))
    found = {name: header for name, header in zip(names, headers, strict=True) if header}
    _require_equal(found, {name: files[name][0].uri for name in names})
    for name, header in found.items():
        _require_fields(logs, header, files[name][0])
        break
    return Layouts({}, {name: FileLayout(tuple(found.get(name, ())), ()) for name in names})


def _header(logs: LogsSourceSpec, location: Location, planned: PlannedFile) -> Sequence[str]:
    if not planned.end:
        return ()
    whole = planned.compression != "none"
    span = LineRange(
        location=location,
        compression=planned.compression,
        size_bytes=planned.end,
        start=0,
        # The line that begins at the first byte.
        end=planned.end if whole else 1,
        timestamp_ms=0,
        max_line_bytes=logs.max_line_bytes,
        # Lines behind it are the matter of the tasks that read them.
        cuts_long=True,
    )
    with closing(iter_lines(span)) as batches:  # type: ignore[type-var]
        batch = next(batches, None)
    if batch is None:
        return ()
    line = batch.column("value")[0].as_py()
    if len(line) > logs.max_line_bytes:
        raise _no_header(location, f"it has more than {logs.max_line_bytes} bytes, max_line_bytes")
    try:
        return csv_header(line, dialect_of(logs.csv))
    except ValueError as error:
        raise _no_header(location, str(error)) from error


def _no_header(location: Location, why: str) -> FormatError:
    return FormatError(
        f"expected a first line with the names of the columns, got another: {why}; nothing was read"
        " or published; write the file again, or correct source.logs.csv",
        path=location.uri,
    )


def _require_equal(headers: Mapping[str, Sequence[str]], uris: Mapping[str, str]) -> None:
    first: str | None = None
    for name, header in headers.items():
        first = name if first is None else first
        if list(header) == list(headers[first]):
            continue
        lacks = [each for each in headers[first] if each not in header]
        more = [each for each in header if each not in headers[first]]
        how = [f"it lacks {_listed(lacks)}"] if lacks else []
        how += [f"it has {_listed(more)} besides"] if more else []
        raise FormatError(
            f"expected the header of {uris[first]} in every file of the interval, got another in"
            f" {uris[name]}: {' and '.join(how) or 'the columns have another order'}; nothing was"
            " read or published; write one of them again, or move it out of the folder"
        )


def _require_fields(logs: LogsSourceSpec, header: Sequence[str], location: Location) -> None:
    missing = [each for each in logs.fields or {} if each not in header]
    if not missing:
        return
    near = get_close_matches(missing[0], header, _MOST_SHOWN, cutoff=0.0)
    hint = ""
    if len(header) == 1:
        hint = f"; one column alone was found: is csv.delimiter, {logs.csv.delimiter!r}, right?"
    raise ConfigError(
        f"expected the fields {_listed(missing)} of source.logs.fields in the header of"
        f" {location.uri}, got {_listed(near)} and others{hint}; nothing was read or published;"
        " correct source.logs.fields"
    )


def _listed(names: Iterable[str]) -> str:
    shown = list(names)
    more = f" and {len(shown) - _MOST_SHOWN} more" if len(shown) > _MOST_SHOWN else ""
    return ", ".join(map(repr, shown[:_MOST_SHOWN])) + more


def dialect_of(csv: CsvSpec) -> CsvDialect:
    """Return how the cells of a line are told apart."""
    return CsvDialect(csv.delimiter, csv.quote, csv.nulls)


def line_reader(stage: Stage, source: str, planned: Planned) -> LineReader | None:
    """Return what reads the lines of an input; None where lines have no fields.

    Args:
        stage: The stage.
        source: Source string of the input.
        planned: The input.

    Raises:
        NotFoundError, FormatError: The headers of the plan are gone or damaged.
    """
    logs = stage.spec.source.logs
    if logs is None or logs.fields is None or not isinstance(planned, PlannedFile):
        return None
    if logs.format != CSV:
        return JsonLines(logs.fields)
    header = kept_headers(stage.folder, planned).files[source].columns
    return CsvLines(logs.fields, header, dialect_of(logs.csv))
