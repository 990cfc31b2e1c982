"""The paths of one data set."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from trainfeed.datacenters import local_source
from trainfeed.dataset.layout._entry_names import (
    RETIRED,
    SKIPPED,
    check_name,
    check_topic,
    generation_name,
)

__all__ = ["DatasetPaths"]


@dataclass(frozen=True)
class DatasetPaths:
    """The paths of one data set. Properties and methods read and create nothing.

    Attributes:
        root: The publication root.
        name: The data set.
    """

    root: Path
    name: str

    def __post_init__(self) -> None:
        # A root given as text becomes a Path.
        object.__setattr__(self, "root", Path(local_source(self.root)))

    @property
    def path(self) -> Path:
        """The data set's own folder."""
        return self.root / check_name(self.name)

    @property
    def schedule(self) -> Path:
        """The file of the recorded schedule."""
        return self.path / "SCHEDULE.json"

    def code(self, digest: str) -> Path:
        """The file with the code of a digest."""
        return self.path / "code" / f"{check_name(digest)}.json"

    def lookup(self, digest: str) -> Path:
        """The file with the lookup of a digest."""
        return self.path / "lookups" / check_name(digest)

    @property
    def staging(self) -> Path:
        """The folder of unfinished versions."""
        return self.path / "_staging"

    @property
    def trash(self) -> Path:
        """The folder of what was taken away, which upkeep deletes later."""
        return self.path / "_trash"

    def staged(self, plan_id: str) -> Path:
        """The staging folder of a plan."""
        return self.staging / check_name(plan_id)

    def interval(self, interval: str) -> Path:
        """The folder of an interval's versions."""
        return self.path / "versions" / check_name(interval)

    def version(self, interval: str, generation: int) -> Path:
        """The folder of one version."""
        return self.interval(interval) / generation_name(generation)

    def plans(self, interval: str) -> Path:
        """The folder of the plans of an interval."""
        return self.path / "plans" / check_name(interval)

    def plan(self, interval: str, plan_id: str) -> Path:
        """The plan file."""
        return self.plans(interval) / f"{check_name(plan_id)}.json"

    def skip(self, interval: str) -> Path:
        """The file with the decision to skip an interval."""
        return self.plans(interval) / SKIPPED

    def landing_removal(self, interval: str) -> Path:
        """The file that says when and why retention removed landing files of an interval."""
        return self.plans(interval) / "LANDING_REMOVED.json"

    def unpublished(self, interval: str) -> Path:
        """The file that says why the last attempt at an interval did not publish it."""
        return self.path / "unpublished" / f"{check_name(interval)}.json"

    def boundaries(self, topic: str, topic_uuid: str) -> Path:
        """The folder of boundary files of one topic."""
        return self.path / "boundaries" / check_topic(topic) / check_topic(topic_uuid)

    def boundary(self, topic: str, topic_uuid: str, at: datetime) -> Path:
        """The boundary file of a topic at the aware UTC time ``at``."""
        return self.boundaries(topic, topic_uuid) / f"{at:%Y%m%dT%H%M%SZ}.json"

    def training(self, interval: str, job: str) -> Path:
        """The folder of one training job."""
        return self.path / "training" / check_name(interval) / check_name(job)

    @property
    def leases(self) -> Path:
        """The folder of leases of readers and builds."""
        return self.path / "_leases"

    @property
    def training_marks(self) -> Path:
        """The folder of marks about trainings; no interval has this name."""
        return self.path / "training" / "_marks"

    @property
    def history(self) -> Path:
        """The folder of actions of people and upkeep, with one folder for each month."""
        return self.path / "history"

    @property
    def tags(self) -> Path:
        """The folder of tags, with one folder for each."""
        return self.path / "tags"

    def tag(self, tag: str) -> Path:
        """The folder with the changes of a tag."""
        return self.tags / check_name(tag)

    @property
    def holes(self) -> Path:
        """The folder of accepted holes between versions."""
        return self.path / "holes"

    @property
    def quarantine_audit(self) -> Path:
        """The file with a line for every reading of quarantined bytes."""
        return self.path / "quarantine-audit.jsonl"

    @property
    def uploads(self) -> Path:
        """The folder of labelled files, with one folder for each interval."""
        return self.path / "uploads"

    @property
    def receipts(self) -> Path:
        """The folder of receipts of uploads."""
        return self.path / "receipts"

    def uploads_removal(self, interval: str) -> Path:
        """The file that says when, by whom and why the uploads of an interval were removed."""
        return self.receipts / "removed" / f"{check_name(interval)}.json"

    def interval_lock(self, interval: str) -> Path:
        """The lock of an interval, held while a version is published, withdrawn or restored."""
        return self.interval(interval) / ".lock"

    def withdrawal_mark(self, interval: str, generation: int) -> Path:
        """The mark of a generation that a person has withdrawn."""
        return self.interval(interval) / f"{generation_name(generation)}.withdrawn"

    def retirement(self, interval: str) -> Path:
        """The file that says who retired an interval, and why."""
        return self.interval(interval) / RETIRED

    def removal_mark(self, interval: str, generation: int) -> Path:
        """The mark of a generation that retention has deleted."""
        return self.interval(interval) / f"{generation_name(generation)}.removed"
