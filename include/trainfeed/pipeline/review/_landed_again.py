"""Lands quarantined records once more in a temporary place: from landing, else as they are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import BinaryIO

import pyarrow as pa

from trainfeed.errors import TrainFeedError
from trainfeed.intervals import parse_time
from trainfeed.pipeline._ref import JsonObject
from trainfeed.pipeline.plans import Plan, PlannedFile, PlannedRange, landing_file, write_landing
from trainfeed.pipeline.quarantine import QuarantinedPlace, QuarantinedRecord
from trainfeed.pipeline.review._whole_records import WholeRecords
from trainfeed.sources import LANDING_SCHEMA
from trainfeed.storage import Location

__all__ = ["LandedAgain", "land_again"]


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
