"""What the stages after ``plan`` report of their tasks, and the JSON that tasks leave of it.

The JSON of a report has the fields of its class, in their order. Light, because a scheduler's task
imports it first.
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
    "StageReport",
    "VersionSummary",
]


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
