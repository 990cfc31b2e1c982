"""Stage ``preprocess``: source records become samples, quarantined rows, or filtered counts.

A pure function of a split group's landing files: the user function sees one record at a time, its
samples get their order key from the record's position, and the group's samples are sorted once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from trainfeed import faults
from trainfeed.build._account import Lateness, Turned
from trainfeed.build._inputs import late_policies
from trainfeed.build._landing import REMEDY, landing_file, leaf_of, opened_landing
from trainfeed.build._plan_file import PlannedRange
from trainfeed.build._record import Filtered, Record, Reject
from trainfeed.build._ref import PlanRef
from trainfeed.build._samples import SampleSorter
from trainfeed.build._spill import QUARANTINE_SCHEMA, write_with_trailer
from trainfeed.build._stage import Stage, run_stage, unit_of
from trainfeed.build._user_function import UserFunction
from trainfeed.config import Environment
from trainfeed.dataset import Leaf, Ledger, SourceLedger, canonical
from trainfeed.dataset.identity import source_hash
from trainfeed.errors import ChecksumError, MemoryLimitError, SampleShapeError
from trainfeed.spec import DatasetSpec
from trainfeed.window import parse_time

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


class _Group:
    """One split group at work."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._function = UserFunction(stage.spec, stage.plan.lookups)
        self._late_policies = late_policies(stage.spec, stage.plan.inputs)
        # Of the plan, not of today's schedule.
        self._start_ms, self._end_ms = (
            int(parse_time(stage.plan.interval[edge]).timestamp() * 1000)
            for edge in ("start", "end")
        )
        self._filtered: dict[str, dict[str, Turned]] = {}
        self._quarantined: dict[str, Turned] = {}
        self._read: dict[str, Leaf] = {}
        self._raw_bytes = 0
        self.lateness: dict[str, Lateness] = {}
        self.sorter = SampleSorter(stage.spec, stage.plan)
        self.quarantine: list[dict[str, Any]] = []

    def process(self, piece: PlannedRange) -> None:
        """Run the user function over one landing file."""
        planned = self._stage.plan.inputs[piece.source]
        location = landing_file(self._stage.landing, planned, piece)
        with opened_landing(location) as landing:
            promised = Leaf.from_json(canonical.loads(landing.metadata["ledger"].encode()))
            lateness = self.lateness.setdefault(piece.source, Lateness())
            read = Leaf()
            for batch in landing.iter_batches():
                read += leaf_of(batch, source_hash(piece.source))
                stamps = batch.column("timestamp").to_numpy()
                lateness.count(stamps, self._start_ms, self._end_ms)
                for record in _records(batch, piece.source):
                    self._one(record)
        if read != promised:
            raise ChecksumError(
                f"records are not those that were landed; {REMEDY}", path=location.uri
            )
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
                quarantined=self._quarantined.get(source, Turned()).leaf(number),
                filtered={reason: filtered[reason].leaf(number) for reason in sorted(filtered)},
            )
        return result

    def _one(self, record: Record) -> None:
        try:
            result = self._function.call(record)
        except Reject as reject:
            self._quarantine(record, reject)
            return
        if isinstance(result, Filtered):
            reasons = self._filtered.setdefault(record.source, {})
            reasons.setdefault(result.reason, Turned()).add(record)
            return
        late = record.timestamp_ms < self._start_ms
        separate = late and self._late_policies[record.source] == "separate"
        try:
            self.sorter.add(record, result, separate=separate)
        except SampleShapeError as error:
            remedy = "mend the function, or the schema in dataset.yaml"
            raise self._function.mistake(record, f"broke the schema: {error}", remedy) from error

    def _quarantine(self, record: Record, reject: Reject) -> None:
        self._quarantined.setdefault(record.source, Turned()).add(record)
        raw = (record.value or b"")[:_MAX_RAW_BYTES]
        self._raw_bytes += len(raw)
        if self._raw_bytes > self._stage.spec.resources.memory_bytes:
            raise MemoryLimitError(
                "quarantined records of one task exceed resources.memory_bytes ="
                f" {self._stage.spec.resources.memory_bytes} bytes at {record.source} offset"
                f" {record.offset}; nothing was published; look at why so many are broken, raise"
                " it, or lower resources.records_per_task in dataset.yaml"
            )
        row = {
            "source": self._stage.plan.sources.index(record.source),
            "offset": record.offset,
            "reason": reject.reason,
            "message": reject.message,
            "raw": raw,
        }
        self.quarantine.append(row)


def _preprocess(stage: Stage, unit: int) -> dict[str, Any]:
    group = _Group(stage)
    pieces = [stage.plan.ranges[index] for index in unit_of(stage.plan.preprocess, unit)]
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
        "late": {source: late.to_json() for source, late in group.lateness.items()},
        "ranges": stage.plan.preprocess[unit],
    }
    stage.quarantine_file(unit).write_atomic(lambda file: write_with_trailer(file, quarantine, {}))
    faults.point("preprocess.before_spill")
    stage.spill_file(unit).write_atomic(lambda file: write_with_trailer(file, table, trailer))
    faults.point("preprocess.after_spill")


def _records(batch: pa.RecordBatch, source: str) -> Iterator[Record]:
    columns = (batch.column(name).to_pylist() for name in ("value", "key", "timestamp", "headers"))
    offsets = batch.column("offset").to_pylist()
    for offset, value, key, timestamp, headers in zip(offsets, *columns, strict=True):
        pairs = tuple((header["key"], header["value"]) for header in headers or ())
        yield Record(value, key, timestamp, pairs, source, offset)
