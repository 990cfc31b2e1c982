"""Tells why a worker ended: what the function did, where, what was kept, what to do."""

from __future__ import annotations

from typing import Final

from trainfeed.errors import EngineError, MemoryLimitError, PreprocessError, TrainFeedError
from trainfeed.pipeline.plans import Plan
from trainfeed.pipeline.stage import Stage, kept
from trainfeed.pipeline.workers import Death, DeathCause, LastSeen
from trainfeed.process_ties import signal_name
from trainfeed.specification import DatasetSpec

__all__ = ["explain", "memory_ran_out", "memory_remedy", "where"]

_SAID: Final = "it had printed"


def explain(stage: Stage, death: Death) -> TrainFeedError:
    """Return the error that says what the function of a stage did to its worker."""
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
    """Return what the kernel did to a worker for want of memory, and what to do; None if not so."""
    if death.for_want_of_memory is False:
        return None
    probably = "probably " if death.for_want_of_memory is None else ""
    how = f"was ended by SIGKILL, {probably}by the kernel for want of memory"
    return how, memory_remedy(spec)


def memory_remedy(spec: DatasetSpec) -> str:
    """Return what to do when the kernel has ended a process for want of memory."""
    # What a task has that runs beside others is a share of the settings: no numbers of them here.
    return (
        "give the machine or container more memory, or lower resources.processes or"
        " resources.memory_bytes in dataset.yaml; with resources.worker_memory_bytes ="
        f" {spec.resources.worker_memory_bytes} below what is there, a function that takes too much"
        " is told with its record"
    )


def _error(kind: type[TrainFeedError], stage: Stage, what: str, remedy: str) -> TrainFeedError:
    name = f"{stage.spec.preprocess.function} of data set {stage.spec.name!r}"
    return kind(f"{name} {what}; {kept(stage.spec)}; {remedy}")


def where(plan: Plan, seen: LastSeen) -> str:
    """Return which record, batch or range was at work, as messages say it.

    Args:
        plan: The plan.
        seen: Where the worker was.
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
