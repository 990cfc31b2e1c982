"""The jobs of worker processes, and the errors for workers that died.

A job runs a function over ranges, or a whole task of a stage. The error for a dead worker says how
the worker ended, at which record, what is kept, and the remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from trainfeed.errors import (
    EngineError,
    MemoryLimitError,
    PreprocessError,
    StorageError,
    TrainFeedError,
)
from trainfeed.pipeline._ref import Build
from trainfeed.pipeline._stage_reports import StageReport
from trainfeed.pipeline.functions._group import Group
from trainfeed.pipeline.functions._prepared_part import PreparedPart
from trainfeed.pipeline.functions._user_function import UserFunction
from trainfeed.pipeline.plans import Plan
from trainfeed.pipeline.stage import Stage, kept
from trainfeed.pipeline.workers import Death, DeathCause, Desk, LastSeen, WorkerPlace
from trainfeed.process_ties import signal_name
from trainfeed.specification import DatasetSpec
from trainfeed.storage import Location, posix

__all__ = [
    "FunctionJob",
    "StageJob",
    "explain",
    "memory_ran_out",
    "memory_remedy",
    "where",
]

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
    """Return the function: that of the last job if code and lookups are the same."""
    plan, spec = stage.plan, stage.spec
    lookups = (*sorted(plan.lookups.items()), plan.rules, repr(spec.lookup_types))
    key = (str(spec.folder), plan.code["digest"], spec.preprocess.function, lookups)
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
