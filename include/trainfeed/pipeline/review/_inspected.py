"""Quarantined records for people: whole where landing has them, with the time of the record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder
from trainfeed.errors import TrainFeedError
from trainfeed.pipeline.plans import PlannedRange, load_plan
from trainfeed.pipeline.quarantine import Quarantine, QuarantinedRecord
from trainfeed.pipeline.review._whole_records import WholeRecords
from trainfeed.specification import DatasetSpec

__all__ = ["InspectedRecord", "inspect_records"]


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
