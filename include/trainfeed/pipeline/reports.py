"""The requests that start a build's stages and the reports that they return, with their JSON.

Nothing heavy is imported here, because every task of a run imports these names first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

from trainfeed.core.canonical_json import JsonFields
from trainfeed.errors import FormatError

if TYPE_CHECKING:
    from trainfeed.core.config import Environment
    from trainfeed.specification import DatasetSpec


# --- The names by which stages find a plan; imports nothing heavy, as tasks import it first

JsonObject: TypeAlias = dict[str, object]


@dataclass(frozen=True)
class PlanRef(JsonFields):
    """The names that a stage hands to the next one, and by which that one finds the plan.

    Attributes:
        dataset: Name of the data set.
        interval: Name of the interval.
        plan_id: Name of the plan.
    """

    dataset: str
    interval: str
    plan_id: str


@dataclass(frozen=True)
class Build:
    """The build of one interval: the argument of every stage after ``plan``.

    Attributes:
        spec: The data set.
        env: Folders and connections.
        ref: The plan.
    """

    spec: DatasetSpec
    env: Environment
    ref: PlanRef


# --- The rule for a published interval that today's code or specification would build otherwise


class OutdatedRule(StrEnum):
    """What a build does with an outdated version: fail, keep it, or build the next generation."""

    FAIL = "fail"
    KEEP = "keep"
    REBUILD = "rebuild"


# --- The request for the build of an interval


@dataclass(frozen=True)
class BuildRequest:
    """The options of a build besides its interval.

    Attributes:
        rebuild: The reason for building a published interval again, or None.
        allow_gap: The reason for accepting that retention deleted records, or None.
        untrained: The reason why no training of the interval is wanted, or None.
        outdated: The rule for a published version that is outdated; see ``plan``.
        replay: Whether to build the interval from its last plan and landing files, without its
            source, if that build quarantined records.
    """

    rebuild: str | None = None
    allow_gap: str | None = None
    untrained: str | None = None
    outdated: OutdatedRule = OutdatedRule.FAIL
    replay: bool = False


# --- The report of stage ``plan``, and its JSON, from which the later tasks of a run start

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


# --- The reports of the stages after ``plan``, and their JSON


@dataclass(frozen=True, kw_only=True)
class StageReport(JsonFields):
    """One task of a stage has done its work, or has found the work already done.

    Attributes:
        stage: Name of the stage.
        source_reads: Number of records read from the source itself.
        seconds: How long the task took.
        verdict: ``built``, ``adopted`` or ``verified``; ``published`` if the plan was published
            before.
    """

    stage: str
    source_reads: int = 0
    seconds: float = 0.0
    verdict: str = "built"


@dataclass(frozen=True, kw_only=True)
class PublishedBefore(StageReport):
    """The plan is already published as ``version``, so the task had nothing to do."""

    verdict: str = "published"
    version: str


@dataclass(frozen=True, kw_only=True)
class IngestReport(StageReport):
    """The ranges of a task have landed (built, adopted), or equal the plan (verified).

    Attributes:
        unit: Number of the task.
        records: Records in the landing files; 0 for log files, which later stages read directly.
        bytes: Size of the landing files, or of the log files.
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
        records: Number of records that the function got.
        samples: Number of samples that the function returned.
        quarantined: Number of records that the function rejected as broken.
        filtered: Number of good records that the function left out.
        runs: Number of sorted runs in which the samples were written.
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
class SparkReport(StageReport):
    """A Spark application has preprocessed the records of a plan, and written its shards.

    Attributes:
        records: Number of records that the function got.
        samples: Number of samples in the shards.
        quarantined: Number of records that the function rejected as broken.
        filtered: Number of good records that the function left out.
        groups: Number of tasks that ran the function.
        shards: Number of shards.
        bytes: Size of the shards' files.
        failed_tasks: Number of Spark's tasks that failed, or were lost with their executor.
        shuffle_bytes: Bytes that the shuffle wrote.
        spilled_bytes: Bytes that the sort of shards wrote for want of memory.
        build_s: Seconds from the application's first task to its last shard.
        preprocess_s: Seconds of all tasks that ran the function, together.
        write_s: Seconds of all tasks that sorted and wrote shards, together.
        kept_shards: Number of shards of an earlier attempt that were not written again.
    """

    stage: str = "spark"
    records: int
    samples: int
    quarantined: int
    filtered: int
    groups: int
    shards: int
    bytes: int
    failed_tasks: int = 0
    shuffle_bytes: int = 0
    spilled_bytes: int = 0
    build_s: float = 0.0
    preprocess_s: float = 0.0
    write_s: float = 0.0
    kept_shards: int = 0


@dataclass(frozen=True, kw_only=True)
class CheckReport(StageReport):
    """The accounts agree, and no gate stops the build.

    Attributes:
        samples: Number of samples of all splits.
        quarantined: Number of records in quarantine.
        filtered: Number of records that the function filtered.
        warnings: One line per failed gate that only warns.
        waived: One line per waiver by which failed gates pass.
        proof: ``positions``, or ``spill`` if the version has no positions to repeat the proof from.
        report: The report that pages show.
    """

    stage: str = "check"
    samples: int
    quarantined: int
    filtered: int
    warnings: list[str]
    waived: list[str]
    proof: Literal["positions", "spill"]
    report: JsonObject


@dataclass(frozen=True)
class VersionSummary:
    """The facts about a version in reports and events: small, without secrets.

    Attributes:
        dataset: Name of the data set.
        interval: Name of the interval.
        generation: Name of the generation.
        fingerprint: Digest of everything that determines the content.
        content_digest: Digest of the content.
        manifest_sha256: Digest of the manifest.
        samples: Number of samples of all splits.
        quarantined: Number of records in quarantine.
        filtered: Number of records that the function filtered.
        shards: Number of shards.
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
class PublishReport(StageReport, without=("summary",)):
    """The version is visible: published by this task (built) or earlier (published).

    Attributes:
        version: Name of the version, as in ``2013-01-01/g0001``.
        summary: Facts about the version.
    """

    stage: str = "publish"
    version: str
    summary: VersionSummary

    def to_json(self) -> JsonObject:
        """Return the result of the task: the fields of the report and of its summary."""
        return {**super().to_json(), **vars(self.summary)}
