"""Records that a build turned down: reasons, places, excerpts without secrets, work files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trainfeed.core.canonical_json import JsonFields
from trainfeed.core.config import Environment
from trainfeed.core.printable_text import printable, without_secrets
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.files.stores import FileInfo, Location
from trainfeed.pipeline.plans import Plan, load_plan
from trainfeed.pipeline.reports import PlanRef
from trainfeed.pipeline.sorting.spill_files import QUARANTINE_SCHEMA, ArrowWithTrailer
from trainfeed.sources import LINE_TOO_LONG
from trainfeed.versions import DatasetFolder

# --- Excerpts of records for messages, reports and logs: short, printable, without secrets

MOST_CHARS: Final = 160

# So many times the shown characters are searched: a secret that begins in the shown part may end
# behind it.
_LOOKED_AT: Final = 4


def plain(text: str, most_chars: int = MOST_CHARS) -> str:
    """Return text as one printable line, cut, with secrets replaced by ``***``."""
    head = without_secrets(text[: _LOOKED_AT * most_chars])
    shown = printable(head)
    if len(shown) <= most_chars and len(head) <= len(text) <= _LOOKED_AT * most_chars:
        return shown
    return f"{shown[:most_chars]}… ({len(text)} characters)"


def excerpt(data: bytes | None, most_chars: int = MOST_CHARS) -> str:
    """Return the beginning of a value: text as text, other bytes in hexadecimal, None as ``null``.

    Args:
        data: The value of a record, or the beginning of it.
        most_chars: Characters to show; a longer value says how long it is.
    """
    if data is None:
        return "null"
    if (text := _decoded(data)) is not None:
        return plain(text, most_chars)
    head = data[: most_chars // 2]
    more = "…" if len(head) < len(data) else ""
    return f"0x{head.hex()}{more} ({len(data)} bytes, not text)"


def _decoded(data: bytes) -> str | None:
    """Return UTF-8 as text, also if the last character is cut; None for bytes with NUL."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        is_cut = error.end == len(data) and "unexpected end of data" in error.reason
        if not is_cut:
            return None
        text = data[: error.start].decode()
    return None if "\0" in text else text


# --- Quarantined records of one build: where they were and why, and for this room their bytes

# The quarantine keeps so many bytes of a value; the position leads to the whole.
MOST_RAW_BYTES: Final = 64 << 10

_PLACE: Final = ("source", "offset", "reason")
_RECORD: Final = (*_PLACE, "message", "raw")

# Reads a table for each batch, with the named columns of ``QUARANTINE_SCHEMA`` alone.
Tables = Callable[[Sequence[str]], Iterator[pa.Table]]


class QuarantinedPositions(NamedTuple):
    """Neighbouring records; all of one length.

    Attributes:
        sources: Indices into the sources of the build, in order of their names.
        offsets: Offsets of the records.
        reasons: The short codes with which the function rejected them.
    """

    sources: NDArray[Any]
    offsets: NDArray[Any]
    reasons: list[str]


@dataclass(frozen=True)
class QuarantinedPlace:
    """A record that the function turned down: where it is and the code for why.

    Messages often quote values, so they are read like bytes: ``QuarantinedRecord``.

    Attributes:
        source: Source string, as in ``kafka:clicks/0``.
        offset: Offset in the topic's partition; for a line, the byte at which it begins; for a row,
            its number in the file.
        reason: The short code with which the function rejected the record.
    """

    source: str
    offset: int
    reason: str


@dataclass(frozen=True)
class QuarantinedRecord(QuarantinedPlace):
    """The same with its message and its bytes, which may hold personal data.

    Attributes:
        message: The exact error, at most 500 characters.
        raw: The first 64 KiB of the value, for a row of columns as JSON; empty for a record without
            a value.
    """

    message: str
    raw: bytes

    @property
    def may_be_cut(self) -> bool:
        """Whether the value may be longer than the bytes that are kept."""
        return len(self.raw) >= MOST_RAW_BYTES or self.reason == LINE_TOO_LONG


@dataclass(frozen=True)
class Quarantine:
    """The quarantined records of one build of an interval; ``read_raw`` gives their bytes.

    Attributes:
        dataset: Name of the data set.
        interval: Name of the interval.
        origin: Name of the generation with the records, or id of the plan that is not published.
        plan: The plan of the build; its file may be gone.
        is_published: True if ``origin`` is a generation, False if it is a plan id.
        place: Path or URI of the file, or of the folder of the work files.
        modified_ms: When the records were written, milliseconds since 1970.
    """

    dataset: str
    interval: str
    origin: str
    plan: PlanRef
    is_published: bool
    place: str
    modified_ms: int
    _sources: tuple[str, ...]
    _tables: Tables

    def reasons(self) -> dict[str, int]:
        """Count the records by reason, the most frequent first.

        Raises:
            AccessDeniedError: Only the account that builds may read them.
            FormatError: A file is damaged.
        """
        counts: Counter[str] = Counter()
        for table in self._tables(("reason",)):
            for entry in table["reason"].value_counts().to_pylist():
                counts[entry["values"]] += entry["counts"]
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def places(self, reason: str | None = None) -> Iterator[QuarantinedPlace]:
        """Yield position and reason of the records in order of source and offset.

        Args:
            reason: Only records with this reason; None for all.

        Raises:
            AccessDeniedError: Only the account that builds may read them.
            FormatError: A file is damaged.
        """
        for row in self._rows(reason, _PLACE):
            yield QuarantinedPlace(**row)

    def positions(self) -> Iterator[QuarantinedPositions]:
        """Yield the positions of the records in order of source and offset, a batch at a time.

        Raises:
            AccessDeniedError: Only the account that builds may read them.
            FormatError: A file is damaged.
        """
        for table in self._tables(_PLACE):
            sources, offsets = (table[name].to_numpy() for name in ("source", "offset"))
            for index in {*sources.tolist()}:
                self._source(index)
            yield QuarantinedPositions(sources, offsets, table["reason"].to_pylist())

    def _rows(self, reason: str | None, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
        for table in self._tables(columns):
            chosen = table if reason is None else table.filter(pc.field("reason") == reason)
            for row in chosen.to_pylist():
                yield {**row, "source": self._source(row["source"])}

    def _source(self, index: int) -> str:
        if not 0 <= index < len(self._sources):
            raise damaged(self.place, f"source {index} of {len(self._sources)}")
        return self._sources[index]


def raw_records(quarantine: Quarantine, reason: str | None = None) -> Iterator[QuarantinedRecord]:
    """Yield the records with their bytes, for this room alone: others use ``read_raw``.

    Args:
        quarantine: The quarantine.
        reason: Only records with this reason; None for all.

    Raises:
        AccessDeniedError: Only the account that builds may read them.
        FormatError: A file is damaged.
    """
    for row in quarantine._rows(reason, _RECORD):  # noqa: SLF001 - the same module
        yield QuarantinedRecord(**row)


def damaged(path: str, problem: str) -> FormatError:
    """Return the error about a file that holds no quarantined records of its build."""
    return FormatError(
        f"expected quarantined records: {problem}; compare the version: trainfeed verify", path=path
    )


# --- Turned-down records for messages and pages: reasons with counts and a few examples

_MOST_REASONS: Final = 5
_MOST_EXAMPLES: Final = 2
_MOST_CHARS: Final = 120


@dataclass(frozen=True)
class Example(JsonFields):
    """One record that shows a reason; texts are short, printable and without secrets.

    Attributes:
        source: Source string.
        offset: Offset in the source; for a line, the byte at which it begins; for a row, its number
            in the file.
        message: The error.
        value: Beginning of the record's value.
    """

    source: str
    offset: int
    message: str
    value: str

    def lines(self, name: str) -> list[str]:
        """Return the example as lines of a message.

        Args:
            name: The reason that the example shows.
        """
        said = f": {self.message}" if self.message else ""
        place = f"  {name} at {self.source} offset {self.offset}{said}"
        return [place, f"    record: {self.value}"] if self.value else [place]


@dataclass(frozen=True)
class Reason(JsonFields, names={"name": "reason"}):
    """Records that were turned down for one reason.

    Attributes:
        name: The short code.
        records: Number of records.
        examples: The first ones.
    """

    name: str
    records: int
    examples: tuple[Example, ...] = ()

    @property
    def lines(self) -> list[str]:
        """The examples as lines of a message."""
        return [line for example in self.examples for line in example.lines(self.name)]


def turned_down(quarantine: Quarantine, counts: Mapping[str, int]) -> list[Reason]:
    """Return the most frequent reasons, each with its first records.

    Args:
        quarantine: The quarantine with the records.
        counts: Reason → number of records, of all reasons.

    Returns:
        At most 5 reasons with at most 2 examples, the most frequent first.

    Raises:
        AccessDeniedError: Only the account that builds may read the records.
        FormatError: A file is damaged.
    """
    reasons = {name: Reason(name, records) for name, records in _most_frequent(counts).items()}
    open_reasons = set(reasons)
    for record in raw_records(quarantine) if reasons else ():
        if record.reason in open_reasons:
            found = reasons[record.reason]
            found = replace(found, examples=(*found.examples, _example(record)))
            reasons[record.reason] = found
            if len(found.examples) == min(_MOST_EXAMPLES, found.records):
                open_reasons.remove(record.reason)
        if not open_reasons:
            break
    return list(reasons.values())


def told_reasons(counts: Mapping[str, int]) -> str:
    """Return counts by reason as part of a message: ``12 not_json, 6 no_value``."""
    shown = _most_frequent(counts)
    parts = [f"{records} {plain(name)}" for name, records in shown.items()]
    more = len(counts) - len(shown)
    rest = sum(counts.values()) - sum(shown.values())
    return ", ".join([*parts, *([f"{rest} for {more} further reasons"] if more else [])])


def _most_frequent(counts: Mapping[str, int]) -> dict[str, int]:
    ordered: Iterable[tuple[str, int]] = sorted(counts.items(), key=lambda i: (-i[1], i[0]))
    return dict(list(ordered)[:_MOST_REASONS])


def _example(record: QuarantinedRecord) -> Example:
    return Example(
        source=plain(record.source),
        offset=record.offset,
        message=plain(record.message, _MOST_CHARS),
        value=excerpt(record.raw, _MOST_CHARS),
    )


# --- The quarantined records of builds that have not published: work files of their plans

_WORK_FILE: Final = re.compile(r"[0-9]{5,}\.quarantine\.arrow")
_SPILL: Final = "spill"


def quarantine_of_plan(env: Environment, ref: PlanRef) -> Quarantine:
    """Return the quarantine in the work files of a plan; during a build, the records so far.

    Raises:
        NotFoundError: There is no such plan, or its work files do not exist (any more).
    """
    plan = load_plan(DatasetFolder(Path(env.root), ref.dataset), ref)
    place = Location.parse(env.work) / _SPILL / plan.plan_id
    files = _work_files(place)
    if not files:
        raise NotFoundError(
            f"plan {plan.plan_id} of {ref.dataset}/{ref.interval} has no quarantined records in"
            f" {place.uri}: preprocess has not ended yet, the version is published, or the work"
            " files were removed by housekeeping; build the interval again to have them"
        )
    return _of_work_files(plan, place, files)


def plans_with_work(env: Environment) -> frozenset[str]:
    """Return the ids of the plans, of all data sets, that have a folder of work files."""
    try:
        return frozenset(info.name for info in (Location.parse(env.work) / _SPILL).list())
    except NotFoundError:
        return frozenset()


def unpublished_plans(
    env: Environment, dataset: str, interval: str, with_work: frozenset[str] | None = None
) -> list[Quarantine]:
    """Return the quarantines in the work files of an interval's plans, the newest last.

    Args:
        env: Folders and connections.
        dataset: Name of the data set.
        interval: Name of the interval.
        with_work: The result of ``plans_with_work``, for callers that ask for many intervals.
    """
    folder = DatasetFolder(Path(env.root), dataset)
    spill = Location.parse(env.work) / _SPILL
    found = []
    for plan_id in folder.plan_ids(interval):
        if with_work is not None and plan_id not in with_work:
            continue
        if files := _work_files(spill / plan_id):
            plan = load_plan(folder, PlanRef(dataset, interval, plan_id))
            found.append(_of_work_files(plan, spill / plan_id, files))
    return sorted(found, key=lambda quarantine: quarantine.modified_ms)


def _of_work_files(plan: Plan, place: Location, files: Iterable[FileInfo]) -> Quarantine:
    names = [info.name for info in files]
    return Quarantine(
        dataset=plan.dataset,
        interval=plan.interval["name"],
        origin=plan.plan_id,
        plan=plan.ref(),
        is_published=False,
        place=place.uri,
        modified_ms=max(info.modified_ms for info in files),
        _sources=tuple(plan.sources),
        _tables=lambda columns: _tables(place, names, columns),
    )


def _tables(place: Location, names: Iterable[str], columns: Sequence[str]) -> Iterator[pa.Table]:
    for name in names:
        with closing(ArrowWithTrailer(place / name, QUARANTINE_SCHEMA)) as file:
            for table in file.iter_tables():
                yield table.select(list(columns))


def _work_files(place: Location) -> list[FileInfo]:
    """Return the quarantine files in the work folder of a plan, by number."""
    try:
        found = place.list()
    except NotFoundError:
        return []
    return sorted(
        (info for info in found if _WORK_FILE.fullmatch(info.name)), key=lambda info: info.name
    )
