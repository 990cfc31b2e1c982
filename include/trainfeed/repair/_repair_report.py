"""The report of a repair: what was found, and what became of each file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from trainfeed.repair._finding import Finding

__all__ = ["Effort", "FileOutcome", "Outcome", "RepairReport"]

Outcome: TypeAlias = Literal["found", "repaired", "not repaired"]


@dataclass(frozen=True)
class FileOutcome:
    """What became of one finding.

    Attributes:
        finding: The finding.
        outcome: ``found`` in a dry run; else whether the file is now as it was published.
        how: How it was repaired, or why it was not; in a dry run, how it would be.
    """

    finding: Finding
    outcome: Outcome
    how: str

    def to_json(self) -> dict[str, str]:
        """Return the outcome as commands print it."""
        return {**self.finding.to_json(), "outcome": self.outcome, "how": self.how}


@dataclass(frozen=True)
class Effort:
    """What was computed again to make files.

    Attributes:
        records: Number of records that were preprocessed.
        source_reads: Number of records that were read from the source itself.
        shards: Number of shards that were written.
        seconds: Duration.
    """

    records: int = 0
    source_reads: int = 0
    shards: int = 0
    seconds: float = 0.0

    def __add__(self, other: Effort) -> Effort:
        return Effort(
            self.records + other.records,
            self.source_reads + other.source_reads,
            self.shards + other.shards,
            round(self.seconds + other.seconds, 3),
        )


@dataclass(frozen=True)
class RepairReport:
    """The result of a repair, or of a dry run.

    Attributes:
        version: ``<data set>/<interval>/<generation>``.
        dry_run: Whether nothing was changed.
        files: The outcome of every finding; empty if the version was intact.
        effort: What was computed again.
        offers: What can be done about files that were not repaired, one sentence each.
    """

    version: str
    dry_run: bool
    files: tuple[FileOutcome, ...] = ()
    effort: Effort = field(default_factory=Effort)
    offers: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether every file of the version is now as it was published."""
        return all(each.outcome == "repaired" for each in self.files)

    def to_json(self) -> dict[str, Any]:
        """Return the report as commands print it."""
        return {
            "version": self.version,
            "dry_run": self.dry_run,
            "is_whole": self.is_whole,
            "files": [each.to_json() for each in self.files],
            "recomputed": vars(self.effort),
            "offers": list(self.offers),
        }
