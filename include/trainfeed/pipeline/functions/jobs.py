"""The work of a task on its ranges, as jobs of worker processes, and the errors of dead workers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol

import pyarrow as pa

from trainfeed.core.intervals import parse_time
from trainfeed.core.process_ties import signal_name
from trainfeed.errors import (
    EngineError,
    MemoryLimitError,
    PreprocessError,
    StorageError,
    TrainFeedError,
)
from trainfeed.files.stores import Location, posix
from trainfeed.pipeline.functions.account import (
    Lateness,
    PreparedPart,
    RecordAccount,
    SampleLimits,
    Tally,
    room_for_samples,
)
from trainfeed.pipeline.functions.modes import (
    LabelledFunction,
    Mode,
    WithoutLongLines,
    mode_of,
)
from trainfeed.pipeline.functions.payloads import InOrder, WithFields, payloads_of_ranges
from trainfeed.pipeline.functions.user_function import SampleFunction, UserFunction
from trainfeed.pipeline.inputs.record_rules import (
    late_policies,
    late_skews,
    longest_line_bytes,
)
from trainfeed.pipeline.inputs.source_readers import PieceReader
from trainfeed.pipeline.labels import load_labels
from trainfeed.pipeline.members import spec_of
from trainfeed.pipeline.plans import Plan, PlannedRange
from trainfeed.pipeline.reports import Build, JsonObject, StageReport
from trainfeed.pipeline.sorting.collector import SampleSorter
from trainfeed.pipeline.sorting.merge import held_batch_bytes
from trainfeed.pipeline.sorting.spill_files import TrailerWriter, edges_of
from trainfeed.pipeline.stage import Stage, kept
from trainfeed.pipeline.workers.pool import Death, DeathCause
from trainfeed.pipeline.workers.protocol import Desk, LastSeen, WorkerPlace
from trainfeed.specification import DatasetSpec
from trainfeed.versions import Leaf

# --- Runs the preprocessing function over ranges of a plan, and writes sorted runs

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
        ranges: Indices of the ranges into the plan's.
        target: Prefix of the files of runs; a number and a suffix follow.
        progress: Gets every batch and record before the function does.
    """

    def __init__(
        self,
        stage: Stage,
        function: UserFunction,
        limit_bytes: int,
        *,
        ranges: Sequence[int],
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
            function if self._labels is None else LabelledFunction(function, self._labels), ranges
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
        account = RecordAccount(ledger, self._lateness, ranges, cut, joined)
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

    def _make_mode(self, function: SampleFunction, ranges: Sequence[int]) -> Mode:
        spec = self._stage.spec
        limits = SampleLimits(
            spec.resources.task_memory_bytes, self._limit_bytes, self._block_bytes
        )
        plan, told = self._stage.plan, self._progress
        payloads = payloads_of_ranges(self._stage, ranges)
        turned = InOrder(self._tally) if payloads else self._tally
        mode = mode_of(
            spec, plan.fields, function, turned, told=told, limits=limits, rules=plan.rules
        )
        if isinstance(turned, InOrder):
            mode = WithFields(mode, turned, payloads)
        # All ranges of a task are of one member of a union.
        own = spec_of(spec, plan.ranges[ranges[0]].source) if ranges else spec
        most_bytes = longest_line_bytes(own)
        return mode if most_bytes is None else WithoutLongLines(mode, self._tally, most_bytes)

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


# --- The jobs of worker processes, and the errors for workers that died

_Run = Callable[[Build, int], StageReport]
_SAID: Final = "it had printed"


@dataclass(frozen=True)
class FunctionJob:
    """Run the preprocessing function over ranges of a plan.

    Attributes:
        build: The build.
        ranges: Indices into the plan's ranges.
        limit_bytes: Memory that the samples of a run may take.
        target: URI with which the names of its files begin.
    """

    build: Build
    ranges: list[int]
    limit_bytes: int
    target: str

    @property
    def label(self) -> str:
        """Name of the function."""
        return self.build.spec.preprocess.function

    def run(self, desk: Desk) -> PreparedPart:
        """Process the ranges and return the result of ``Group.finish``."""
        stage = Stage.open(self.build)
        code = stage.check_code()
        with posix.map_errors(stage.folder.path):
            group = Group(
                stage,
                _function(stage, code, desk.functions),
                self.limit_bytes,
                ranges=self.ranges,
                target=Location.parse(self.target),
                progress=desk.place,
            )
            for index in self.ranges:
                desk.place.begin(index)
                with _told(stage.plan, desk.place), posix.map_errors(stage.folder.path):
                    group.process(stage.plan.ranges[index])
                desk.on_piece(index)
            return group.finish(self.ranges)


@dataclass(frozen=True)
class StageJob:
    """Run one task of a stage that calls no function of the user.

    Attributes:
        stage: The stage, a function of a module.
        build: The build.
        unit: Number of the task.
    """

    stage: _Run
    build: Build
    unit: int

    @property
    def label(self) -> str:
        """Name of the stage and number of the task."""
        return f"{self.stage.__name__} {self.unit}"

    def run(self, desk: Desk) -> StageReport:  # noqa: ARG002 - a job's signature
        """Run the stage and return its report."""
        return self.stage(self.build, self.unit)


@contextmanager
def _told(plan: Plan, place: WorkerPlace) -> Iterator[None]:
    """Add the records that were at work to the error of a file."""
    try:
        yield
    except StorageError as error:
        message, *others = error.args
        error.args = (f"{message}; it happened {where(plan, place.read())}", *others)
        raise


def _function(
    stage: Stage, code: Mapping[str, bytes], functions: dict[Hashable, object]
) -> UserFunction:
    """Return the function: that of the last job if code, fields and lookups are the same."""
    plan, spec = stage.plan, stage.spec
    lookups = (*sorted(plan.lookups.items()), plan.rules, repr(spec.lookup_types))
    parameters = repr(sorted(spec.preprocess.parameters.items()))
    called = (spec.preprocess.function, parameters, repr(spec.function_fields()))
    key = (str(spec.folder), plan.code["digest"], called, lookups)
    function = functions.get(key)
    if not isinstance(function, UserFunction):
        functions.clear()
        function = functions[key] = UserFunction(stage.spec, code, plan.lookups, rules=plan.rules)
    return function


def explain(stage: Stage, death: Death) -> TrainFeedError:
    """Return the error for a worker that died in the function of a stage."""
    resources = stage.spec.resources
    there = where(stage.plan, death.place)
    if death.cause is DeathCause.MEMORY:
        return _error(
            MemoryLimitError,
            stage,
            f"took {death.detail} bytes of memory {there}, above resources.worker_memory_bytes ="
            f" {resources.worker_memory_bytes}",
            "keep less in the function, or raise it in dataset.yaml",
        )
    if death.cause is DeathCause.TIME:
        return _error(
            PreprocessError,
            stage,
            f"took longer than resources.time_limit = {resources.time_limit.total_seconds():g} s"
            f" {there}",
            f"fix the loop, or raise it in dataset.yaml{_printed('it was at', death)}",
        )
    if want := memory_ran_out(stage.spec, death):
        return _error(EngineError, stage, f"{want[0]} {there}", want[1] + _printed(_SAID, death))
    if death.cause is DeathCause.SIGNAL:
        return _error(
            EngineError,
            stage,
            f"was ended by {signal_name(death.detail)} {there}",
            "a kill, a crash in native code, or the machine was out of memory; run again, or look"
            f" into that record{_printed(_SAID, death)}",
        )
    return _error(
        PreprocessError,
        stage,
        f"ended its process with status {death.detail} {there}",
        "raise Reject for broken records, and never call os._exit" + _printed(_SAID, death),
    )


def memory_ran_out(spec: DatasetSpec, death: Death) -> tuple[str, str] | None:
    """Return description and remedy if the kernel killed a worker for want of memory, else None."""
    if death.for_want_of_memory is False:
        return None
    probably = "probably " if death.for_want_of_memory is None else ""
    how = f"was ended by SIGKILL, {probably}by the kernel for want of memory"
    return how, memory_remedy(spec)


def memory_remedy(spec: DatasetSpec) -> str:
    """Return the remedy for a process that the kernel killed for want of memory."""
    # Without values of processes and memory_bytes: in a task that runs beside others, ``spec``
    # has only a share of the settings.
    return (
        "give the machine or container more memory, or lower resources.processes or"
        " resources.memory_bytes in dataset.yaml; if resources.worker_memory_bytes, now"
        f" {spec.resources.worker_memory_bytes}, is set below the memory that is there, the error"
        " names the record at which a function takes too much"
    )


def _error(kind: type[TrainFeedError], stage: Stage, what: str, remedy: str) -> TrainFeedError:
    name = f"{stage.spec.preprocess.function} of data set {stage.spec.name!r}"
    return kind(f"{name} {what}; {kept(stage.spec)}; {remedy}")


def where(plan: Plan, seen: LastSeen) -> str:
    """Return the record, batch or range that was at work, as part of a message.

    Args:
        plan: The plan.
        seen: The last position of the worker.
    """
    if seen.range_index is None:
        return "while it was loaded"
    piece = plan.ranges[seen.range_index]
    whole = f"[{piece.start}, {piece.end}) of {piece.source}"
    if seen.record is not None:
        return f"at {piece.source} offset {seen.record}, in {whole}"
    if seen.first is not None:
        return f"in the batch of {piece.source} offsets {seen.first} to {seen.last}, in {whole}"
    return f"before the first record of {whole}"


def _printed(what: str, death: Death) -> str:
    return f"; {what}:\n{death.printed}" if death.printed else ""
