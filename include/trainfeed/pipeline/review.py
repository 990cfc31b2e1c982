"""A closer look at quarantined records: whole from landing, and through the function of today."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from trainfeed.core.canonical_json import JsonFields
from trainfeed.core.config import Environment
from trainfeed.core.intervals import parse_time
from trainfeed.errors import FormatError, NotFoundError, TrainFeedError
from trainfeed.files.stores import Location, posix
from trainfeed.pipeline.functions.account import RecordAccount
from trainfeed.pipeline.inputs.kept_inputs import KeptInputs
from trainfeed.pipeline.inputs.row_files import piece_with
from trainfeed.pipeline.inputs.row_json import as_values
from trainfeed.pipeline.inputs.schemas import lend_schemas
from trainfeed.pipeline.inputs.source_readers import reader_of
from trainfeed.pipeline.landed_ranges import landed_records, landing_file, write_landing
from trainfeed.pipeline.members import spec_of
from trainfeed.pipeline.planner.planner import Planner
from trainfeed.pipeline.plans import Plan, PlannedFile, PlannedRange, load_plan
from trainfeed.pipeline.preprocess import preprocess
from trainfeed.pipeline.preview import shadowed, shown_value
from trainfeed.pipeline.quarantine import (
    MOST_RAW_BYTES,
    Quarantine,
    QuarantinedPlace,
    QuarantinedRecord,
    plain,
)
from trainfeed.pipeline.quarantine_access import read_raw
from trainfeed.pipeline.reports import Build, JsonObject
from trainfeed.pipeline.sorting.spill_files import QUARANTINE_SCHEMA, ArrowWithTrailer
from trainfeed.pipeline.stage import Stage
from trainfeed.samples import Schema, TypedCodec
from trainfeed.sources import LANDING_SCHEMA
from trainfeed.specification import UNION, DatasetSpec, OneSource
from trainfeed.versions import DatasetFolder

# --- Records of a plan as they were read: from landing files, or from log files that do not land

_Place = TypeVar("_Place", bound=QuarantinedPlace)


@dataclass(frozen=True)
class WholeRecords:
    """Reads records of a plan again, as they were read for its build.

    Attributes:
        env: Folders and connections.
        plan: The plan.
        spec: The data set; None if its specification cannot be read. Landing files do not need it.
        kept_in: Path or URI of the quarantine that named the records, for messages.
    """

    env: Environment
    plan: Plan
    spec: DatasetSpec | None
    kept_in: str

    @property
    def pieces(self) -> Pieces:
        """The ranges of the plan, to look records up."""
        folder = DatasetFolder(Path(self.env.root), self.plan.dataset)
        return Pieces(self.plan, self.kept_in, folder)

    def batches(self, piece: PlannedRange, offsets: Collection[int]) -> Iterator[pa.RecordBatch]:
        """Yield some records of a range, as batches of ``LANDING_SCHEMA``, by offset.

        Nothing behind the last wanted record is read, so the digest of the file is not compared.

        Raises:
            NotFoundError: The landing file is gone.
            FormatError: The landing file, or a log file, is damaged, or lacks some of the records;
                those that it has were yielded before.
            SourceReplacedError: The log file is not the one that was planned.
            StorageError: The store does not answer.
        """
        wanted = pa.array(sorted(offsets), pa.int64())
        last, missing = max(offsets), set(offsets)
        with closing(self._whole(piece)) as batches:
            for batch in batches:
                found = batch.filter(pc.is_in(batch["offset"], value_set=wanted))
                if found.num_rows:
                    missing.difference_update(found["offset"].to_pylist())
                    yield found
                if batch["offset"][-1].as_py() >= last:
                    break
        if missing:
            raise FormatError(
                f"expected all quarantined records of {piece.source}, got none at"
                f" {len(missing)} offsets, the first is {min(missing)}: the file is damaged",
                path=self._place(piece).uri,
            )

    def _whole(self, piece: PlannedRange) -> Generator[pa.RecordBatch]:
        location = self._place(piece)
        if location.exists():
            yield from landed_records(location)
        elif self.spec is not None and not spec_of(self.spec, piece.source).source.kind.lands:
            stage = Stage(self.spec, self.env, self.plan)
            yield from map(as_values, reader_of(self.spec).batches(stage, piece))
        else:
            raise NotFoundError(f"landing file {location.uri} is gone")

    def _place(self, piece: PlannedRange) -> Location:
        planned = self.plan.inputs[piece.source]
        return landing_file(Location.parse(self.env.landing), planned, piece)


class Pieces:
    """Finds the range of a plan that a record was read with.

    Args:
        plan: The plan.
        kept_in: Path or URI of the quarantine with the records, for messages.
        folder: The data set below the publication root, with what the plan names; None for a plan
            that names nothing there.
    """

    def __init__(self, plan: Plan, kept_in: str, folder: DatasetFolder | None = None) -> None:
        self._folder = folder
        self._plan = plan
        self._kept_in = kept_in
        self._ranges: dict[str, list[PlannedRange]] = {}
        for piece in plan.ranges:
            self._ranges.setdefault(piece.source, []).append(piece)

    def piece_of(self, place: QuarantinedPlace) -> PlannedRange:
        """Return the range with a record.

        Raises:
            FormatError: The plan has no such range: the quarantine is not one of its build.
        """
        pieces = self._ranges.get(place.source, [])
        if pieces and not self._plan.inputs[place.source].is_cut:
            # Offsets in a compressed file count decompressed bytes, beyond the end of the range.
            return pieces[0]
        found = piece_with(self._folder, self._plan, place.source, place.offset, pieces)
        if found is None:
            raise FormatError(
                f"expected records of the inputs of plan {self._plan.plan_id}, got one at"
                f" {place.source} offset {place.offset}: the quarantine is damaged, or of another"
                " build; compare the version: trainfeed verify",
                path=self._kept_in,
            )
        return found

    def group(self, places: Iterable[_Place]) -> dict[PlannedRange, list[_Place]]:
        """Group records by their ranges, in order of the plan."""
        found: dict[PlannedRange, list[_Place]] = {}
        for place in places:
            found.setdefault(self.piece_of(place), []).append(place)
        return {piece: found[piece] for piece in self._plan.ranges if piece in found}


# --- Quarantined records for people: whole where landing has them, with the time of the record


@dataclass(frozen=True)
class InspectedRecord:
    """A quarantined record with what landing knows about it.

    Attributes:
        record: The record as the quarantine has it.
        value: The value: whole if ``is_whole``, else the bytes of the quarantine. None for a
            record without a value, which only landing tells from an empty one.
        is_whole: Whether ``value`` is the whole value for certain.
        time_ms: Timestamp, milliseconds since 1970 UTC; None if it is not known.
        why_not: Why landing was of no help; empty if it was.
    """

    record: QuarantinedRecord
    value: bytes | None
    is_whole: bool
    time_ms: int | None = None
    why_not: str = ""


def inspect_records(
    env: Environment,
    spec: DatasetSpec | None,
    quarantine: Quarantine,
    records: Sequence[QuarantinedRecord],
) -> list[InspectedRecord]:
    """Complete quarantined records from landing files, or from log files that do not land.

    Args:
        env: Folders and connections; no broker is contacted.
        spec: The data set; None if its specification cannot be read.
        quarantine: The quarantine with the records.
        records: Records of ``read_raw``.

    Raises:
        FormatError: A record is not of the plan's inputs: the quarantine is damaged.

    Returns:
        The records in the same order. Where landing is gone, damaged, or does not answer, the
        record is that of the quarantine, with the reason.
    """
    try:
        plan = load_plan(DatasetFolder(Path(env.root), quarantine.dataset), quarantine.plan)
    except TrainFeedError as error:
        return [_as_kept(record, str(error)) for record in records]
    spec = None if spec is None else spec.for_interval(plan.times.start)
    whole = WholeRecords(env, plan, spec, quarantine.place)
    found: dict[QuarantinedRecord, InspectedRecord] = {}
    for piece, wanted in whole.pieces.group(records).items():
        found.update(zip(wanted, _of_piece(whole, piece, wanted), strict=True))
    return [found[record] for record in records]


def _of_piece(
    whole: WholeRecords, piece: PlannedRange, wanted: Sequence[QuarantinedRecord]
) -> list[InspectedRecord]:
    rows: dict[int, tuple[bytes | None, int]] = {}
    why_not = ""
    try:
        for batch in whole.batches(piece, [record.offset for record in wanted]):
            columns = (batch[name].to_pylist() for name in ("offset", "value", "timestamp"))
            rows.update({offset: row for offset, *row in zip(*columns, strict=True)})
    except TrainFeedError as error:
        why_not = str(error)
    return [
        _completed(record, *rows[record.offset])
        if record.offset in rows
        else _as_kept(record, why_not)
        for record in wanted
    ]


def _completed(record: QuarantinedRecord, value: bytes | None, time_ms: int) -> InspectedRecord:
    if not _begins_with(value, record):
        return _as_kept(record, "landing has another value at this position: it is damaged")
    time = time_ms if time_ms >= 0 else None
    return InspectedRecord(record, value, is_whole=True, time_ms=time)


def _begins_with(value: bytes | None, record: QuarantinedRecord) -> bool:
    held = value or b""
    return held.startswith(record.raw) if record.may_be_cut else held == record.raw


def _as_kept(record: QuarantinedRecord, why_not: str) -> InspectedRecord:
    return InspectedRecord(record, record.raw, is_whole=not record.may_be_cut, why_not=why_not)


# --- Lands quarantined records once more in a temporary place: from landing, else as they are kept


@dataclass
class LandedAgain:
    """The records that were landed again.

    Attributes:
        pieces: Ranges of the plan, in its order; empty if none has such a record.
        reasons: (source, offset) → reason in the quarantine.
        from_quarantine: Why a range was not read from landing → number of its records.
        left_out: Records whose landing is gone and of which only the beginning is kept.
    """

    pieces: list[PlannedRange] = field(default_factory=list)
    reasons: dict[tuple[str, int], str] = field(default_factory=dict)
    from_quarantine: Counter[str] = field(default_factory=Counter)
    left_out: int = 0


def land_again(
    whole: WholeRecords,
    places: Sequence[QuarantinedPlace],
    kept: Iterable[QuarantinedRecord],
    landing: Location,
) -> LandedAgain:
    """Write landing files that hold only some quarantined records of a plan.

    Args:
        whole: Reads records of the plan.
        places: The records, in order of source and offset.
        kept: The same records as the quarantine keeps them; only read if landing is gone.
        landing: The landing area to write to.
    """
    landed = LandedAgain()
    missing: dict[PlannedRange, str] = {}
    for piece, wanted in whole.pieces.group(places).items():
        batches = whole.batches(piece, [place.offset for place in wanted])
        try:
            _write(landing, whole.plan, piece, batches)
        except TrainFeedError as error:
            missing[piece] = str(error)
        else:
            _count(landed, piece, wanted)
    if missing:
        _land_kept(whole, missing, kept, landing, landed)
    if landed.pieces:
        # A plan reads its inputs whole: the other ranges land without a record.
        for piece in set(whole.plan.ranges).difference(landed.pieces):
            _write(landing, whole.plan, piece, iter(()))
        landed.pieces = list(whole.plan.ranges)
    return landed


def _land_kept(
    whole: WholeRecords,
    missing: dict[PlannedRange, str],
    kept: Iterable[QuarantinedRecord],
    landing: Location,
    landed: LandedAgain,
) -> None:
    """Land the records of ranges that could not be read again, as far as they are kept whole."""
    plan = whole.plan
    for piece, records in groupby(kept, whole.pieces.piece_of):
        if piece not in missing:
            continue
        usable: list[QuarantinedPlace] = []
        _write(landing, plan, piece, _batches(plan, piece, _usable(records, usable, landed)))
        if usable:
            landed.from_quarantine[missing[piece]] += len(usable)
            _count(landed, piece, usable)


def _usable(
    records: Iterable[QuarantinedRecord], usable: list[QuarantinedPlace], landed: LandedAgain
) -> Iterator[QuarantinedRecord]:
    """Yield the records that are kept whole, one in memory at a time; note them and the others."""
    for record in records:
        if record.may_be_cut:
            landed.left_out += 1
        else:
            usable.append(QuarantinedPlace(record.source, record.offset, record.reason))
            yield record


def _count(landed: LandedAgain, piece: PlannedRange, places: Iterable[QuarantinedPlace]) -> None:
    landed.pieces.append(piece)
    landed.reasons.update({(place.source, place.offset): place.reason for place in places})


def _write(
    landing: Location, plan: Plan, piece: PlannedRange, batches: Iterator[pa.RecordBatch]
) -> None:
    location = landing_file(landing, plan.inputs[piece.source], piece)

    def write(file: BinaryIO) -> None:
        write_landing(file, batches, piece.source)

    location.write_atomic(write)


def _batches(
    plan: Plan, piece: PlannedRange, records: Iterable[QuarantinedRecord]
) -> Iterator[pa.RecordBatch]:
    planned = plan.inputs[piece.source]
    start_ms = int(parse_time(plan.interval["start"]).timestamp() * 1000)
    time_ms = planned.timestamp_ms if isinstance(planned, PlannedFile) else start_ms
    for record in records:
        row: JsonObject = {
            "offset": record.offset,
            "timestamp": time_ms,
            "timestamp_type": 0,
            "key": None,
            "value": record.raw,
            "headers": [],
        }
        yield pa.RecordBatch.from_pylist([row], schema=LANDING_SCHEMA)


# --- The report of a preview of quarantined records, by the reason that they have now


@dataclass
class ReasonOutcome(JsonFields, also=("filtered",)):
    """What the function of today makes of the records with one reason.

    Attributes:
        reason: The reason in the quarantine.
        records: Number of records that the function got.
        valid: Number of those that would give samples.
        quarantined: New reason → number of records that would be quarantined again.
        samples: The first samples, each with the position of its record; long values are cut.
        errors: The first records that would be quarantined again: position, reason and message.
    """

    reason: str
    records: int = 0
    valid: int = 0
    quarantined: dict[str, int] = field(default_factory=dict)
    samples: list[JsonObject] = field(default_factory=list)
    errors: list[JsonObject] = field(default_factory=list)

    @property
    def filtered(self) -> int:
        """Number of records that would be filtered, or give no sample."""
        return self.records - self.valid - sum(self.quarantined.values())


@dataclass(frozen=True)
class QuarantinePreview(
    JsonFields,
    also=("previewed", "valid"),
    without=("origin",),
    names={"is_published": "published", "outcomes": "reasons"},
):
    """What the function of today makes of the quarantined records of one build.

    Attributes:
        dataset: Name of the data set.
        interval: Name of the interval.
        origin: The generation, or id of the plan that is not published.
        is_published: Whether ``origin`` is a generation.
        quarantined: Number of records in the quarantine.
        outcomes: By reason in the quarantine, the most frequent first.
        filtered: Reason → number of records that would be filtered, over all reasons.
        left_out: Records that the function did not get, because only their beginning is kept.
        notes: What a person must know to read the numbers.
        seconds: Duration.
    """

    dataset: str
    interval: str
    origin: str
    is_published: bool
    quarantined: int
    outcomes: Sequence[ReasonOutcome]
    filtered: dict[str, int]
    left_out: int
    notes: Sequence[str]
    seconds: float

    @property
    def previewed(self) -> int:
        """Number of records that the function got."""
        return sum(outcome.records for outcome in self.outcomes)

    @property
    def valid(self) -> int:
        """Number of records that would give samples."""
        return sum(outcome.valid for outcome in self.outcomes)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON that commands print."""
        kind = "generation" if self.is_published else "plan"
        return {kind: self.origin, **super().to_json()}


# --- A build in a temporary place whose only landed records are quarantined ones

_FOLDER: Final = "previews"
_PREFIX: Final = "trainfeed-"


class PreviewPlace(NamedTuple):
    """A temporary place with records.

    Attributes:
        landed: The records.
        stage: The plan for them; None if there is no record.
    """

    landed: LandedAgain
    stage: Stage | None


@contextmanager
def preview_place(
    spec: DatasetSpec,
    env: Environment,
    whole: WholeRecords,
    places: Sequence[QuarantinedPlace],
    kept: Iterable[QuarantinedRecord],
) -> Iterator[PreviewPlace]:
    """Yield a place with some quarantined records of a plan; it is removed at the end.

    Args:
        spec: The data set as it is now.
        env: Folders and connections; no broker is contacted.
        whole: Reads records of the build that quarantined them.
        places: The records, in order of source and offset.
        kept: The same records as the quarantine keeps them.

    Raises:
        SourceReplacedError: The specification names another source.
    """
    plan = whole.plan
    KeptInputs(plan.inputs).require_source_of(spec)
    with (
        tempfile.TemporaryDirectory(prefix=_PREFIX, dir=_above(env)) as work,
        shadowed(env, spec.name, plan.interval["name"], published=False) as shadow,
    ):
        apart = replace(shadow, landing=f"{work}/landing", work=f"{work}/work")
        place = replace(apart, kafka={}, registries={}, catalogs={})
        landing = Location.parse(place.landing)
        landed = land_again(whole, places, kept, landing)
        stage = _planned(_landing(spec), place, plan, landed) if landed.pieces else None
        if stage is not None:
            lend_schemas(stage, Location.parse(env.landing))
        yield PreviewPlace(landed, stage)


def _above(env: Environment) -> Path | None:
    """Return the folder in which housekeeping finds what a killed preview left.

    None, which means ``TMPDIR``, if the work area is no folder of this machine.
    """
    location = Location.parse(env.work) / _FOLDER
    if not location.uri.startswith("file://"):
        return None
    posix.make_public_dir(location.path)
    return Path(location.path)


def _planned(spec: DatasetSpec, place: Environment, plan: Plan, landed: LandedAgain) -> Stage:
    """Plan the records with code and specification of today."""
    folder = DatasetFolder(Path(place.root), spec.name)
    planner = Planner(spec, plan.times, place, folder)
    inputs = KeptInputs(plan.inputs)
    made = planner.make(inputs, rebuild=None, allow_gap=None, ranges=landed.pieces)
    return Stage(spec, place, made)


def _landing(spec: DatasetSpec) -> DatasetSpec:
    """Return the specification with files that land: ``preprocess`` then reads what landed."""
    members = {name: _landed(each) for name, each in spec.source.members.items()}
    source = spec.source.model_copy(update={UNION: members}) if members else _landed(spec.source)
    return spec.model_copy(update={"one_source": source})


def _landed(source: OneSource) -> OneSource:
    update: dict[str, Any] = {}
    if source.logs is not None:
        update = {"logs": source.logs.model_copy(update={"land": True})}
    if source.iceberg is not None:
        update = {"iceberg": source.iceberg.landed()}
    return source.model_copy(update=update)


# --- Reads what a task of ``preprocess`` made of quarantined records

_MOST_EXAMPLES: Final = 3

_Reasons = Mapping[tuple[str, int], str]
_Outcomes = Mapping[str, ReasonOutcome]


def count_outcomes(stage: Stage, unit: int, reasons: _Reasons, outcomes: _Outcomes) -> Counter[str]:
    """Add the result of a task to the outcomes.

    Args:
        stage: The plan that was run.
        unit: Number of the task.
        reasons: (source, offset) → reason in the quarantine, of every record.
        outcomes: Reason → outcome; changed.

    Returns:
        Reason → number of records that were filtered.
    """
    with closing(ArrowWithTrailer(stage.quarantine_file(unit), QUARANTINE_SCHEMA)) as file:
        for row in _rejected(file):
            _count_rejected(stage, row, reasons, outcomes)
    with closing(ArrowWithTrailer(stage.spill_file(unit))) as file:
        _count_valid(stage, file, reasons, outcomes)
        ledger = RecordAccount.from_json(file.trailer).ledger
    return Counter(
        {
            reason: leaf.records
            for source in ledger.values()
            for reason, leaf in source.filtered.items()
        }
    )


def _rejected(file: ArrowWithTrailer) -> Iterator[dict[str, Any]]:
    for table in file.iter_tables():
        yield from table.drop_columns("raw").to_pylist()


def _count_rejected(
    stage: Stage, row: Mapping[str, Any], reasons: _Reasons, outcomes: _Outcomes
) -> None:
    place = stage.plan.sources[row["source"]], row["offset"]
    outcome = outcomes[reasons[place]]
    outcome.quarantined[row["reason"]] = outcome.quarantined.get(row["reason"], 0) + 1
    if len(outcome.errors) < _MOST_EXAMPLES:
        said = {"reason": row["reason"], "message": plain(row["message"])}
        outcome.errors.append({"source": place[0], "offset": place[1], **said})


def _count_valid(
    stage: Stage, file: ArrowWithTrailer, reasons: _Reasons, outcomes: _Outcomes
) -> None:
    codec, sources = TypedCodec(Schema.from_json(stage.plan.fields)), stage.plan.sources
    for number in range(len(file.trailer["starts"])):
        head, records = file.head(number), file.records(number)
        columns = (head[name].to_pylist() for name in ("source", "offset", "ordinal"))
        for row, (source, offset, ordinal) in enumerate(zip(*columns, strict=True)):
            place = sources[source], offset
            outcome = outcomes[reasons[place]]
            # A record with several samples counts once.
            outcome.valid += ordinal == 0
            if len(outcome.samples) < _MOST_EXAMPLES:
                sample = codec.decode(records[row].as_buffer()).items()
                shown = {name: shown_value(value) for name, value in sample}
                outcome.samples.append({"source": place[0], "offset": offset, "sample": shown})


# --- Runs the function of today over the quarantined records of a build; publishes nothing

_COMMAND: Final = "preview"
_BATCH_NOTE: Final = (
    "batch mode: the function gets these records in batches of their own, without the records that"
    " stand between them in a build; a function that compares the rows of a batch may judge"
    " otherwise there"
)


def preview_quarantine(
    spec: DatasetSpec,
    env: Environment,
    quarantine: Quarantine,
    *,
    reason: str | None = None,
    limit: int,
) -> QuarantinePreview:
    """Run the function of today over quarantined records, as a build would, and report by reason.

    Args:
        spec: The data set as it is now: function, lookups, schema and limits.
        env: Folders and connections; no broker is contacted. Only the audit is written.
        quarantine: The quarantine of a version, or of a build that failed.
        reason: Only records with this reason; None for all.
        limit: The most records.

    Raises:
        NotFoundError: The plan of the build is gone.
        FormatError: A record is not of the plan's inputs: the quarantine is damaged.
        AccessDeniedError: Only the account that builds may read the records.
        PreprocessError: The function raised, or returned what the schema forbids.
        MemoryLimitError: The function took too much memory.
    """
    started = time.perf_counter()
    plan = load_plan(DatasetFolder(Path(env.root), quarantine.dataset), quarantine.plan)
    spec = spec.for_interval(plan.times.start)
    kept = read_raw(Path(env.root), quarantine, _COMMAND, reason=reason, limit=limit)
    places = list(islice(quarantine.places(reason), limit))
    whole = WholeRecords(env, plan, spec, quarantine.place)
    with preview_place(spec, env, whole, places, kept) as place:
        outcomes, filtered = _run(place)
    outcomes.sort(key=lambda outcome: (-outcome.records, outcome.reason))
    return QuarantinePreview(
        dataset=quarantine.dataset,
        interval=quarantine.interval,
        origin=quarantine.origin,
        is_published=quarantine.is_published,
        quarantined=sum(quarantine.reasons().values()),
        outcomes=outcomes,
        filtered=filtered,
        left_out=place.landed.left_out,
        notes=_notes(spec, place.landed),
        seconds=round(time.perf_counter() - started, 3),
    )


def _run(place: PreviewPlace) -> tuple[list[ReasonOutcome], dict[str, int]]:
    """Run the function; return what became of the records by reason, and the filtered ones."""
    reasons = place.landed.reasons
    counts = Counter(reasons.values())
    outcomes = {reason: ReasonOutcome(reason, records) for reason, records in counts.items()}
    filtered: Counter[str] = Counter()
    if place.stage is not None:
        build = Build(place.stage.spec, place.stage.env, place.stage.plan.ref())
        for unit in range(len(place.stage.plan.preprocess)):
            preprocess(build, unit)
            filtered += count_outcomes(place.stage, unit, reasons, outcomes)
    return list(outcomes.values()), dict(sorted(filtered.items()))


def _notes(spec: DatasetSpec, landed: LandedAgain) -> list[str]:
    notes = [_BATCH_NOTE] if spec.preprocess.input == "batch" else []
    notes += [
        f"{records} records come from the quarantine, without key, headers and, for topics, their"
        f" own time: {why}"
        for why, records in landed.from_quarantine.items()
    ]
    if landed.left_out:
        notes.append(
            f"{landed.left_out} records were not previewed: landing is gone, and the quarantine"
            f" keeps only their first {MOST_RAW_BYTES} bytes"
        )
    return notes
