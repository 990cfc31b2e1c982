"""The reports of the stages after ``plan``, and their JSON.

The JSON of a report has the fields of its class, in their order. The module imports nothing heavy,
because every task of a scheduler imports it first.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from trainfeed.pipeline._ref import JsonObject

__all__ = [
    "CheckReport",
    "ConvertReport",
    "IngestReport",
    "PreprocessReport",
    "PublishReport",
    "PublishedBefore",
    "SparkReport",
    "StageReport",
    "VersionSummary",
]


@dataclass(frozen=True, kw_only=True)
class StageReport:
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

    def to_json(self) -> JsonObject:
        """Return the result of the task."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


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
class PublishReport(StageReport):
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
        own = super().to_json()
        del own["summary"]
        return {**own, **vars(self.summary)}
