"""The report of stage ``plan``, and its JSON, from which the later tasks of a run start.

The module imports nothing heavy, because every task of a scheduler imports it first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Final, Literal, cast

from trainfeed.errors import FormatError
from trainfeed.pipeline._ref import JsonObject, PlanRef

__all__ = ["MAPPED_STAGES", "PlanReport", "SkipReport", "plan_report_from_json"]

# The stages that a plan cuts into tasks.
MAPPED_STAGES: Final = ("ingest", "preprocess", "convert")


@dataclass(frozen=True)
class PlanReport:
    """An interval has a plan: a new one, or that of the version already published.

    Attributes:
        ref: The plan.
        generation: Name of the generation that the plan builds.
        verdict: ``build``; ``identical`` when the plan is already published; ``kept`` when it is
            published, outdated, and the request said to keep it.
        tasks: Mapped stage → number of tasks, at least one.
        empty_because: Source string → why nothing is read; empty if any source has records to read.
        passed_over: The entries of the folder of logs that are not read, in words; None if there is
            none.
        seconds: How long planning took.
        note: A remark for people, such as a rebuild that took place, a source that was away, or
            the causes for which a kept version is outdated.
    """

    ref: PlanRef
    generation: str
    verdict: Literal["build", "identical", "kept"]
    tasks: Mapping[str, int]
    _: KW_ONLY
    empty_because: Mapping[str, str] = field(default_factory=dict)
    passed_over: str | None = None
    seconds: float = 0.0
    note: str | None = None

    @property
    def is_published(self) -> bool:
        """Whether the version of the plan was there before, so that there is nothing to build."""
        return self.verdict != "build"

    def to_json(self) -> JsonObject:
        """Return the result of task ``plan``, without keys that do not apply."""
        return {
            **self.ref.to_json(),
            "generation": self.generation,
            "verdict": self.verdict,
            **_units(self.tasks),
            **({"empty_because": dict(self.empty_because)} if self.empty_because else {}),
            **({} if self.passed_over is None else {"passed_over": self.passed_over}),
            "seconds": self.seconds,
            **({} if self.note is None else {"note": self.note}),
        }


@dataclass(frozen=True)
class SkipReport:
    """The specification excludes the interval: there is no plan, no task and no generation.

    Attributes:
        dataset: Name of the data set.
        interval: Name of the interval.
        note: Why the interval is excluded.
        seconds: How long planning took.
    """

    dataset: str
    interval: str
    note: str
    seconds: float = 0.0

    def to_json(self) -> JsonObject:
        """Return the result of task ``plan``."""
        return {
            "dataset": self.dataset,
            "interval": self.interval,
            "verdict": "skipped",
            **_units(dict.fromkeys(MAPPED_STAGES, 0)),
            "seconds": self.seconds,
            "note": self.note,
        }


def plan_report_from_json(value: Mapping[str, object]) -> PlanReport | SkipReport:
    """Read the JSON of a report.

    Raises:
        FormatError: ``value`` is no such report; a dry run, for example, leaves another JSON.
    """
    try:
        if value["verdict"] == "skipped":
            return _skip_report(value)
        return _plan_report(value)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FormatError(
            f"expected the result of the task plan, got something else: {error!r};"
            " nothing was read or written; clear the run from plan on"
        ) from error


def _skip_report(value: Mapping[str, object]) -> SkipReport:
    return SkipReport(
        dataset=_text(value["dataset"]),
        interval=_text(value["interval"]),
        note=_text(value["note"]),
        seconds=_seconds(value["seconds"]),
    )


def _plan_report(value: Mapping[str, object]) -> PlanReport:
    return PlanReport(
        PlanRef(_text(value["dataset"]), _text(value["interval"]), _text(value["plan_id"])),
        _text(value["generation"]),
        _verdict(value["verdict"]),
        {stage: _num_units(value[stage]) for stage in MAPPED_STAGES},
        empty_because=dict(cast("Mapping[str, str]", value.get("empty_because", {}))),
        passed_over=None if value.get("passed_over") is None else _text(value["passed_over"]),
        seconds=_seconds(value["seconds"]),
        note=None if value.get("note") is None else _text(value["note"]),
    )


def _units(tasks: Mapping[str, int]) -> JsonObject:
    return {stage: [{"unit": unit} for unit in range(tasks[stage])] for stage in MAPPED_STAGES}


def _verdict(value: object) -> Literal["build", "identical", "kept"]:
    match value:
        case "build" | "identical" | "kept":
            return value
        case _:
            raise ValueError(
                f"expected the verdict build, identical, kept or skipped, got {value!r}"
            )


def _num_units(value: object) -> int:
    if not isinstance(value, list):
        raise TypeError(f"expected a list of units, got {value!r}")
    return len(value)


def _seconds(value: object) -> float:
    if not isinstance(value, int | float):
        raise TypeError(f"expected seconds, got {value!r}")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, got {value!r}")
    return value
