"""Stage ``preprocess``: source records become samples, quarantined rows, or filtered counts.

A pure function of a split group's landing files: the user function sees one record at a time, its
samples get their order key from the record's position, and the group's samples are sorted once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from trainfeed import faults
from trainfeed.build._code import load_function
from trainfeed.build._inputs import late_policies
from trainfeed.build._landing import landing_file, leaf_of
from trainfeed.build._lookups import load_lookups
from trainfeed.build._plan_file import PlannedRange
from trainfeed.build._record import Filtered, Record, Reject
from trainfeed.build._ref import PlanRef
from trainfeed.build._samples import SampleSorter
from trainfeed.build._spill import QUARANTINE_SCHEMA, write_with_trailer
from trainfeed.build._stage import Stage, run_stage
from trainfeed.config import Environment
from trainfeed.dataset import Leaf, Ledger, SourceLedger, canonical
from trainfeed.dataset.identity import source_hash
from trainfeed.errors import ChecksumError, NotFoundError, PreprocessError, SampleShapeError
from trainfeed.sources import LandingFile
from trainfeed.spec import DatasetSpec
from trainfeed.window import Interval

__all__ = ["preprocess"]

# Raw bytes kept of a quarantined record; whatever is longer is cut, the position finds the rest.
_MAX_RAW_BYTES: Final = 64 << 10


def preprocess(spec: DatasetSpec, env: Environment, ref: PlanRef, unit: int) -> dict[str, Any]:
    """Preprocess the records of one split group.

    Args:
        spec: The data set.
        env: Where things are.
        ref: The plan.
        unit: Index into the plan's ``preprocess``.

    Returns:
        ``verdict``, ``records``, ``samples``, ``quarantined``, ``filtered``.

    Raises:
        PreprocessError: The user function raised, or returned what the schema forbids.
        MemoryLimitError: The group's samples exceed ``resources.memory_bytes``.
    """
    return run_stage("preprocess", (spec, env, ref), lambda stage: _preprocess(stage, unit))


@dataclass
class _Turned:
    """Records of one source that were turned down: their offsets and bytes."""

    offsets: list[int] = field(default_factory=list)
    bytes: int = 0

    def add(self, record: Record) -> None:
        self.offsets.append(record.offset)
        self.bytes += len(record.value or b"")

    def leaf(self, source: int) -> Leaf:
        return Leaf.of(source, np.array(self.offsets, dtype=np.int64), self.bytes)


@dataclass
class _Lateness:
    """Records stamped outside of the window that their offset puts them into."""

    start_ms: int
    end_ms: int
    late: int = 0
    future: int = 0
    max_lateness_ms: int = 0

    def count(self, stamps: np.ndarray[Any, np.dtype[np.int64]]) -> None:
        """Count the stamps of a batch, in milliseconds, shape (n,)."""
        late = stamps < self.start_ms
        self.late += int(late.sum())
        self.future += int((stamps >= self.end_ms).sum())
        if late.any():
            worst = int(self.start_ms - stamps[late].min())
            self.max_lateness_ms = max(self.max_lateness_ms, worst)

    def to_json(self) -> dict[str, int]:
        return {"late": self.late, "future": self.future, "max_lateness_ms": self.max_lateness_ms}


class _Group:
    """One split group at work."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._function = load_function(stage.spec, stage.spec.preprocess.function)
        self._lookups = load_lookups(stage.spec, stage.plan.lookups)
        self._filtered: dict[str, dict[str, _Turned]] = {}
        self._quarantined: dict[str, _Turned] = {}
        self._read: dict[str, Leaf] = {}
        interval = stage.spec.schedule_model().interval_named(stage.plan.interval["name"])
        self.lateness = _lateness(interval)
        self._late_policies = late_policies(stage.spec, stage.plan.inputs)
        self.sorter = SampleSorter(stage.spec, stage.plan)
        self.quarantine: list[dict[str, Any]] = []

    def process(self, piece: PlannedRange) -> None:
        """Run the user function over one landing file."""
        planned = self._stage.plan.inputs[piece.source]
        location = landing_file(self._stage.landing, planned, piece)
        if not location.exists():
            raise NotFoundError(
                f"landing file {location.uri} is missing; clear the ingest task of this run"
            )
        with closing(LandingFile.open(location)) as landing:
            landing.verify()
            promised = Leaf.from_json(canonical.loads(landing.metadata["ledger"].encode()))
            read = Leaf()
            for batch in landing.iter_batches():
                read += leaf_of(batch, source_hash(piece.source))
                self.lateness.count(batch.column("timestamp").to_numpy())
                for record in _records(batch, piece.source):
                    self._one(record)
        if read != promised:
            raise ChecksumError("records are not those that were landed", path=location.uri)
        self._read[piece.source] = self._read.get(piece.source, Leaf()) + read

    def ledger(self) -> Ledger:
        """Return what became of the records, by source."""
        result = Ledger()
        valid = self.sorter.ledger()
        for source, read in self._read.items():
            number = source_hash(source)
            filtered = self._filtered.get(source, {})
            result[source] = SourceLedger(
                read=read,
                valid=valid[source],
                quarantined=self._quarantined.get(source, _Turned()).leaf(number),
                filtered={reason: filtered[reason].leaf(number) for reason in sorted(filtered)},
            )
        return result

    def _one(self, record: Record) -> None:
        try:
            result = self._call(record)
        except Reject as reject:
            self._quarantine(record, reject)
            return
        if isinstance(result, Filtered):
            reasons = self._filtered.setdefault(record.source, {})
            reasons.setdefault(result.reason, _Turned()).add(record)
            return
        late = record.timestamp_ms < self.lateness.start_ms
        separate = late and self._late_policies[record.source] == "separate"
        try:
            self.sorter.add(record, result, separate=separate)
        except SampleShapeError as error:
            raise PreprocessError(
                f"{self._name()} at {_place(record)}: {error}; nothing was published; mend the"
                " function, or the schema in dataset.yaml"
            ) from error

    def _call(self, record: Record) -> list[Mapping[str, Any]] | Filtered:
        try:
            result = self._function(record, self._lookups)
        except Reject:
            raise
        except Exception as error:
            raise PreprocessError(
                f"{self._name()} raised {type(error).__name__}: {error} at {_place(record)};"
                " nothing was published; mend the function, or raise Reject for broken records"
            ) from error
        if isinstance(result, Mapping):
            return [result]
        if isinstance(result, list) and all(isinstance(sample, Mapping) for sample in result):
            return result or Filtered("empty")
        if isinstance(result, Filtered):
            return result
        raise PreprocessError(
            f"{self._name()} returned {type(result).__name__} at {_place(record)}; expected a"
            " mapping, a list of mappings, or Filtered"
        )

    def _quarantine(self, record: Record, reject: Reject) -> None:
        self._quarantined.setdefault(record.source, _Turned()).add(record)
        row = {
            "source": self._stage.plan.sources.index(record.source),
            "offset": record.offset,
            "reason": reject.reason,
            "message": reject.message,
            "raw": (record.value or b"")[:_MAX_RAW_BYTES],
        }
        self.quarantine.append(row)

    def _name(self) -> str:
        return f"{self._stage.spec.preprocess.function} of data set {self._stage.spec.name!r}"


def _preprocess(stage: Stage, unit: int) -> dict[str, Any]:
    group = _Group(stage)
    pieces = [stage.plan.ranges[index] for index in stage.plan.preprocess[unit]]
    for piece in pieces:
        group.process(piece)
        faults.point("preprocess.after_range")
    ledger = group.ledger()
    _write(stage, unit, group, ledger)
    filtered = [leaf.records for part in ledger.values() for leaf in part.filtered.values()]
    return {
        "verdict": "built",
        "unit": unit,
        "records": sum(part.read.records for part in ledger.values()),
        "samples": sum(part.valid.samples for part in ledger.values()),
        "quarantined": len(group.quarantine),
        "filtered": sum(filtered),
    }


def _write(stage: Stage, unit: int, group: _Group, ledger: Ledger) -> None:
    table, rows = group.sorter.table()
    quarantine = pa.Table.from_pylist(group.quarantine, schema=QUARANTINE_SCHEMA)
    trailer = {
        "rows": rows,
        "ledger": ledger.to_json(),
        "late": group.lateness.to_json(),
        "ranges": stage.plan.preprocess[unit],
    }
    stage.quarantine_file(unit).write_atomic(lambda file: write_with_trailer(file, quarantine, {}))
    faults.point("preprocess.before_spill")
    stage.spill_file(unit).write_atomic(lambda file: write_with_trailer(file, table, trailer))
    faults.point("preprocess.after_spill")


def _lateness(interval: Interval) -> _Lateness:
    return _Lateness(int(interval.start.timestamp() * 1000), int(interval.end.timestamp() * 1000))


def _records(batch: pa.RecordBatch, source: str) -> Iterator[Record]:
    columns = (batch.column(name).to_pylist() for name in ("value", "key", "timestamp", "headers"))
    offsets = batch.column("offset").to_pylist()
    for offset, value, key, timestamp, headers in zip(offsets, *columns, strict=True):
        pairs = tuple((header["key"], header["value"]) for header in headers or ())
        yield Record(value, key, timestamp, pairs, source, offset)


def _place(record: Record) -> str:
    return f"{record.source} offset {record.offset}"
