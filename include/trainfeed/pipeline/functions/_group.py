"""Runs the preprocessing function over ranges of a plan, and writes sorted runs."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from datetime import timedelta
from typing import Final, Protocol

import pyarrow as pa

from trainfeed.dataset import Leaf
from trainfeed.errors import MemoryLimitError, PreprocessError
from trainfeed.intervals import parse_time
from trainfeed.pipeline._ref import JsonObject
from trainfeed.pipeline.functions._account import Tally
from trainfeed.pipeline.functions._batch_mode import Mode
from trainfeed.pipeline.functions._labelled_function import LabelledFunction
from trainfeed.pipeline.functions._modes import mode_of
from trainfeed.pipeline.functions._prepared_part import Lateness, PreparedPart, RecordAccount
from trainfeed.pipeline.functions._sample_limits import SampleLimits, room_for_samples
from trainfeed.pipeline.functions._user_function import SampleFunction, UserFunction
from trainfeed.pipeline.inputs import PieceReader, late_policies, late_skews
from trainfeed.pipeline.labels import load_labels
from trainfeed.pipeline.plans import PlannedRange
from trainfeed.pipeline.sorting import SampleSorter, TrailerWriter, edges_of, held_batch_bytes
from trainfeed.pipeline.stage import Stage
from trainfeed.storage import Location

__all__ = ["Group", "Progress", "batch_bytes_of"]

# The memory for sorting, divided by this, is the size of a block that is read or encoded at once.
_BLOCKS_PER_RUN: Final = 16


class Progress(Protocol):
    """Records where the function is at work, for the case that it never returns."""

    def batch(self, source: str, first: int, last: int) -> None:
        """Record that the offsets ``first`` to ``last`` come next."""

    def record(self, offset: int) -> None:
        """Record the offset of the record that comes next."""


class Group:
    """The work of one worker on some ranges of a task.

    Args:
        stage: The stage.
        function: The function and its lookups.
        limit_bytes: Memory that the samples of a run may take, sorting included.
        target: Prefix of the files of runs; a number and a suffix follow.
        progress: Gets every batch and record before the function does.
    """

    def __init__(
        self,
        stage: Stage,
        function: UserFunction,
        limit_bytes: int,
        *,
        target: Location,
        progress: Progress,
    ) -> None:
        self._stage = stage
        self._target = target
        self._progress = progress
        self._limit_bytes = limit_bytes
        self._block_bytes = limit_bytes // _BLOCKS_PER_RUN
        # The interval of the plan; the schedule of the specification may have changed since.
        self._start_ms, self._end_ms = (
            int(parse_time(stage.plan.interval[edge]).timestamp() * 1000)
            for edge in ("start", "end")
        )
        self._sorter = SampleSorter(stage.spec, stage.plan, limit_bytes, self._late_before())
        quarantine_bytes = stage.spec.resources.task_memory_bytes
        self._tally = Tally(stage.plan.sources, quarantine_bytes, self._block_bytes)
        self._labels = load_labels(stage)
        self._mode = self._make_mode(
            function if self._labels is None else LabelledFunction(function, self._labels)
        )
        self._read: dict[str, Leaf] = {}
        self._lateness: dict[str, Lateness] = {}
        self._refused_from = self._stamps_refused()
        self._runs: list[str] = []
        self._quarantine: list[str] = []

    def process(self, piece: PlannedRange) -> None:
        """Run the function over one range."""
        reader = PieceReader(self._stage, piece)
        try:
            self._process(reader, piece)
        except (MemoryLimitError, PreprocessError):
            # If the landing file is damaged, that is the cause: ``verify`` raises its error.
            reader.verify()
            raise
        self._read[piece.source] = self._read.get(piece.source, Leaf()) + reader.read

    def _process(self, reader: PieceReader, piece: PlannedRange) -> None:
        lateness = self._lateness.setdefault(piece.source, Lateness())
        refused_ms = self._refused_from.get(piece.source)
        with closing(self._cut(reader)) as batches:
            for batch in batches:
                stamps = batch.column("timestamp").to_numpy()
                lateness.count(stamps, self._start_ms, self._end_ms, refused_ms)
                offsets = batch.column("offset")
                self._progress.batch(piece.source, offsets[0].as_py(), offsets[-1].as_py())
                for block in self._mode.blocks(batch, piece.source):
                    if not self._sorter.has_room(block):
                        self._write_run()
                    self._sorter.add(block)
                if self._tally.is_full:
                    self._write_quarantine()

    def finish(self, ranges: list[int]) -> PreparedPart:
        """Write the last run, which carries the account, and the quarantined records.

        Args:
            ranges: The ranges that were processed, for the account.

        Returns:
            The names of all files, and the account.
        """
        ledger = self._tally.ledger(self._read, self._sorter.valid)
        labels = self._labels
        joined = None if labels is None else labels.counts
        cut = self._stage.plan.cut_sha256()
        account = RecordAccount(ledger, self._lateness, ranges, joined, cut)
        self._write_run(account)
        self._write_quarantine()
        used = None if labels is None else labels.used
        return PreparedPart(self._runs, self._quarantine, account, self._tally.kept_bytes, used)

    def _late_before(self) -> dict[str, int]:
        """Return source → start of the interval, for sources with a split of late records."""
        policies = late_policies(self._stage.spec, self._stage.plan.inputs)
        return {source: self._start_ms for source, p in policies.items() if p == "separate"}

    def _stamps_refused(self) -> dict[str, int]:
        """Return source → time from which on stamps are refused, for the policy ``fail``."""
        skews = late_skews(self._stage.spec, self._stage.plan.inputs)
        return {
            source: self._end_ms + int(skew / timedelta(milliseconds=1))
            for source, skew in skews.items()
        }

    def _make_mode(self, function: SampleFunction) -> Mode:
        spec = self._stage.spec
        limits = SampleLimits(
            spec.resources.task_memory_bytes, self._limit_bytes, self._block_bytes
        )
        plan, told = self._stage.plan, self._progress
        return mode_of(
            spec, plan.fields, function, self._tally, told=told, limits=limits, rules=plan.rules
        )

    def _cut(self, batches: Iterable[pa.RecordBatch]) -> Generator[pa.RecordBatch, None, None]:
        """Cut batches to the size that the function should get, and drop empty ones."""
        for batch in batches:
            mean_bytes = max(1, batch.nbytes // max(1, batch.num_rows))
            most = max(1, self._block_bytes // mean_bytes)
            start = 0
            while start < batch.num_rows:
                # ``rows_at_once`` changes with every batch that the function has processed.
                piece = batch.slice(start, min(most, self._mode.rows_at_once))
                yield piece
                start += piece.num_rows

    def _write_run(self, account: RecordAccount | None = None) -> None:
        table, rows = self._sorter.run()
        name = f"{len(self._runs):05d}.arrow"
        told = {} if account is None else account.to_json()
        edges = edges_of(rows, self._stage.plan.convert)
        self._runs.append(self._write(name, table, {"rows": rows, **told}, edges))

    def _write_quarantine(self) -> None:
        name = f"quarantine.{len(self._quarantine):05d}.arrow"
        self._quarantine.append(self._write(name, self._tally.take_quarantine(), {}))

    def _write(
        self, suffix: str, table: pa.Table, trailer: JsonObject, edges: Sequence[int] = ()
    ) -> str:
        location = self._target.parent / f"{self._target.name}.{suffix}"
        with location.open_write() as file:
            writer = TrailerWriter(
                file,
                table.schema,
                batch_bytes=batch_bytes_of(self._stage),
                edges=edges,
            )
            writer.write(table)
            writer.close(trailer)
        return location.name


def batch_bytes_of(stage: Stage) -> int:
    """Return the size of batches in spill files: a merge holds some batches of every file."""
    # The memory that ``convert`` will have for them, so that it merges all files in one pass.
    return held_batch_bytes(room_for_samples(stage.spec), len(stage.plan.preprocess))
