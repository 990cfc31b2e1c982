"""What stages report of their tasks, and the JSON of it that schedulers keep and commands print.

The JSON of a report has the fields of its class, in their order. Light, because a scheduler's task
imports it first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Final, Literal, TypeAlias, cast

from trainfeed.errors import FormatError
from trainfeed.pipeline._ref import PlanRef

__all__ = [
    "MAPPED_STAGES",
    "CheckReport",
    "ConvertReport",
    "IngestReport",
    "JsonObject",
    "PlanReport",
    "PreprocessReport",
    "PublishReport",
    "PublishedBefore",
    "SkipReport",
    "StageReport",
    "VersionSummary",
    "plan_report_from_json",
]

JsonObject: TypeAlias = dict[str, object]

# The stages that a plan cuts into tasks.
MAPPED_STAGES: Final = ("ingest", "preprocess", "convert")


@dataclass(frozen=True)
class PlanReport:
    """An interval has a plan, of this run or of the version that is published already.

    Attributes:
        ref: The plan.
        generation: Name of the generation that the plan is of.
        verdict: What is to be done about it.
        tasks: How many tasks every mapped stage has, at least one each.
        empty_because: Per source why nothing is read of it; empty while anything is read.
        seconds: How long planning took.
        note: What else is to be said: a rebuild that took place, a source that is away.
    """

    ref: PlanRef
    generation: str
    verdict: Literal["build", "identical"]
    tasks: Mapping[str, int]
    _: KW_ONLY
    empty_because: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    note: str | None = None

    def to_json(self) -> JsonObject:
        """Return the report as the task ``plan`` leaves it: keys that do not apply are left out."""
        return {
            **self.ref.to_json(),
            "generation": self.generation,
            "verdict": self.verdict,
            **_units(self.tasks),
            **({"empty_because": dict(self.empty_because)} if self.empty_because else {}),
            "seconds": self.seconds,
            **({} if self.note is None else {"note": self.note}),
        }


@dataclass(frozen=True)
class SkipReport:
    """The specification leaves an interval out: there is no plan, no task and no generation.

    Attributes:
        dataset: Name of the data set.
        interval: Name of the interval.
        note: Why it is left out.
        seconds: How long planning took.
    """

    dataset: str
    interval: str
    note: str
    seconds: float = 0.0

    def to_json(self) -> JsonObject:
        """Return the report as the task ``plan`` leaves it."""
        return {
            "dataset": self.dataset,
            "interval": self.interval,
            "verdict": "skipped",
            **_units(dict.fromkeys(MAPPED_STAGES, 0)),
            "seconds": self.seconds,
            "note": self.note,
        }


def plan_report_from_json(value: Mapping[str, object]) -> PlanReport | SkipReport:
    """Read what the task ``plan`` left.

    Raises:
        FormatError: It is something else, such as what a dry run leaves.
    """
    try:
        if value["verdict"] == "skipped":
            return _skip_report(value)
        return _plan_report(value)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FormatError(
            f"expected what the task plan leaves for the later ones, got something else: {error!r};"
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
        seconds=_seconds(value["seconds"]),
        note=None if value.get("note") is None else _text(value["note"]),
    )


def _units(tasks: Mapping[str, int]) -> JsonObject:
    return {stage: [{"unit": unit} for unit in range(tasks[stage])] for stage in MAPPED_STAGES}


def _verdict(value: object) -> Literal["build", "identical"]:
    match value:
        case "build" | "identical":
            return value
        case _:
            raise ValueError(f"expected the verdict build, identical or skipped, got {value!r}")


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


@dataclass(frozen=True, kw_only=True)
class StageReport:
    """One task of a stage has done its work, or found it done.

    Attributes:
        stage: Name of the stage.
        source_reads: Records that were read from the source itself.
        seconds: How long the task took.
        verdict: What was found or made; ``published`` where the plan is published already.
    """

    stage: str
    source_reads: int = 0
    seconds: float = 0.0
    verdict: str = "built"

    def to_json(self) -> JsonObject:
        """Return the report as a task leaves it."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(frozen=True, kw_only=True)
class PublishedBefore(StageReport):
    """The plan is published already, so there was nothing to do; ``version`` is its version."""

    verdict: str = "published"
    version: str


@dataclass(frozen=True, kw_only=True)
class IngestReport(StageReport):
    """The ranges of a task have landed (built, adopted), or are what was planned (verified).

    Attributes:
        unit: Number of the task.
        records: Records in the landing files; 0 of log files that later stages read themselves.
        bytes: Their bytes, or those of the log files.
    """

    stage: str = "ingest"
    unit: int
    records: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class PreprocessReport(StageReport):
    """The records of a task are samples, in quarantine, or filtered.

    Attributes:
        unit: Number of the task.
        records: Records that the function got.
        samples: Samples that it made of them.
        quarantined: Records that it turned down.
        filtered: Records that it did not want.
        runs: Sorted runs that the samples were written in.
    """

    stage: str = "preprocess"
    unit: int
    records: int
    samples: int
    quarantined: int
    filtered: int
    runs: int


@dataclass(frozen=True, kw_only=True)
class ConvertReport(StageReport):
    """The shards of a task are in the staging folder; ``bytes`` is the size of their files."""

    stage: str = "convert"
    unit: int
    shards: int
    samples: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class CheckReport(StageReport):
    """The accounts agree, and no gate that blocks is broken.

    Attributes:
        samples: Samples of all splits.
        quarantined: Records in quarantine.
        filtered: Records that were not wanted.
        warnings: One line per gate that is broken and only warns.
        proof: positions, or spill where the version has no positions to repeat the proof from.
        report: What a page shows.
    """

    stage: str = "check"
    samples: int
    quarantined: int
    filtered: int
    warnings: list[str]
    proof: Literal["positions", "spill"]
    report: JsonObject


@dataclass(frozen=True)
class VersionSummary:
    """What reports and events say of a version: small, no secrets.

    Attributes:
        dataset: Name of the data set.
        interval: Name of the interval.
        generation: Name of the generation.
        fingerprint: Digest of what the content is a function of.
        content_digest: Digest of the content.
        manifest_sha256: Digest of the manifest.
        samples: Samples of all splits.
        quarantined: Records in quarantine.
        filtered: Records that were not wanted.
        shards: Files of samples.
        bytes: Size of all files that the manifest names.
    """

    dataset: str
    interval: str
    generation: str
    fingerprint: str
    content_digest: str
    manifest_sha256: str
    samples: int
    quarantined: int
    filtered: int
    shards: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class PublishReport(StageReport):
    """The version is visible: published by this task (built), or before it (published).

    Attributes:
        version: Name of the version, as in ``2013-01-01/g0001``.
        summary: What is in it.
    """

    stage: str = "publish"
    version: str
    summary: VersionSummary

    def to_json(self) -> JsonObject:
        """Return the report as the task leaves it: the summary's fields among its own."""
        own = super().to_json()
        del own["summary"]
        return {**own, **vars(self.summary)}
