"""Records of a plan as they were read: from landing files, or from log files that do not land."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from trainfeed.config import Environment
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.pipeline.inputs import reader_of
from trainfeed.pipeline.plans import Plan, PlannedRange, landing_file, opened_landing
from trainfeed.pipeline.quarantine import QuarantinedPlace
from trainfeed.pipeline.stage import Stage
from trainfeed.specification import DatasetSpec
from trainfeed.storage import Location

__all__ = ["Pieces", "WholeRecords"]

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
        return Pieces(self.plan, self.kept_in)

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
            with opened_landing(location, verified=False) as landing:
                yield from landing.iter_batches()
        elif self.spec is not None and not self.spec.source.kind.lands:
            stage = Stage(self.spec, self.env, self.plan)
            yield from reader_of(self.spec).batches(stage, piece)
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
    """

    def __init__(self, plan: Plan, kept_in: str) -> None:
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
        number = bisect_right(pieces, place.offset, key=lambda piece: piece.start) - 1
        if number < 0 or place.offset >= pieces[number].end:
            raise FormatError(
                f"expected records of the inputs of plan {self._plan.plan_id}, got one at"
                f" {place.source} offset {place.offset}: the quarantine is damaged, or of another"
                " build; compare the version: trainfeed verify",
                path=self._kept_in,
            )
        return pieces[number]

    def group(self, places: Iterable[_Place]) -> dict[PlannedRange, list[_Place]]:
        """Group records by their ranges, in order of the plan."""
        found: dict[PlannedRange, list[_Place]] = {}
        for place in places:
            found.setdefault(self.piece_of(place), []).append(place)
        return {piece: found[piece] for piece in self._plan.ranges if piece in found}
