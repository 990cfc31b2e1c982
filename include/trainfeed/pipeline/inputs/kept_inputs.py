"""The inputs of earlier builds, with which an interval is planned again without its source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from trainfeed.errors import (
    SourceReplacedError,
    SourceUnreachableError,
    StorageError,
    TableNotFoundError,
    TopicNotFoundError,
    TrainFeedError,
)
from trainfeed.pipeline.members import spec_of
from trainfeed.pipeline.plans import (
    Plan,
    Planned,
    PlannedFile,
    PlannedRange,
    first_few,
    planned_of,
)
from trainfeed.specification import DatasetSpec, IcebergSourceSpec, KafkaTopics
from trainfeed.versions import Manifest, Skip
from trainfeed.versions.order import split_member

# --- The inputs of an earlier build, from which an interval is built again without its source


@dataclass(frozen=True)
class KeptInputs:
    """The inputs of a version or of a plan, as ``Inputs`` of the planner.

    Attributes:
        planned: Source string → range or file.
        gaps: The losses that were accepted for them.
        ranges: The pieces in which they were read, and so the names of their landing files; None
            if the plan is gone, and the pieces follow from the specification.
        marker: Name of the file that marked the folder of logs as complete, or None.
        passed_over: Name → reason of every entry of the folder that was not read.
        markers: Member of a union → such a file.
    """

    planned: Mapping[str, Planned]
    gaps: list[dict[str, Any]] = field(default_factory=list)
    ranges: Sequence[PlannedRange] | None = None
    marker: str | None = None
    passed_over: Mapping[str, str] = field(default_factory=dict)
    markers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_plan(cls, plan: Plan) -> KeptInputs:
        """Return the inputs of a plan."""
        found = plan.inputs, plan.gaps, plan.ranges, plan.marker, plan.passed_over
        return cls(*found, plan.markers)

    @classmethod
    def of_version(cls, manifest: Manifest) -> KeptInputs:
        """Return the inputs of a version whose plan is gone."""
        planned = {source: planned_of(value) for source, value in manifest.inputs.items()}
        return cls(planned, manifest.gaps, passed_over=manifest.passed_over)

    def require_source_of(self, spec: DatasetSpec) -> None:
        """Refuse a specification that names another source than the inputs come from.

        Raises:
            SourceReplacedError: It names other topics, or another kind of source.
        """
        others = [source for source, each in self.planned.items() if _is_other(spec, source, each)]
        if others:
            kind = spec.source.kind
            raise SourceReplacedError(
                f"the last build of {spec.name} read {first_few(others)}, and dataset.yaml names"
                f" another source now: {', '.join(kind.described())}; nothing was read or written;"
                " bring the source back in dataset.yaml, or read the new one: trainfeed build"
                f" {spec.name} --interval INTERVAL --rebuild WHY"
            )

    def inputs(self, current: Manifest | None) -> Mapping[str, Planned]:  # noqa: ARG002
        """Return source string → planned range or file."""
        return self.planned

    def skip(self) -> Skip | None:
        """Return None: the interval was planned before."""
        return None

    def without_losses(
        self,
        current: Manifest | None,  # noqa: ARG002 - the losses are those of the earlier build
        allow_gap: str | None,  # noqa: ARG002
    ) -> tuple[Mapping[str, Planned], list[dict[str, Any]]]:
        """Return the inputs and the losses as they were accepted before."""
        return self.planned, self.gaps

    def empty_because(
        self,
        inputs: Mapping[str, Planned],  # noqa: ARG002 - a quarantined record was read
        allow_gap: str | None,  # noqa: ARG002
    ) -> dict[str, str]:
        """Return an empty mapping: something was read, else there would be no quarantine."""
        return {}

    def confirm(self) -> None:
        """Do nothing: the plan or version that has them is there."""


def _is_other(spec: DatasetSpec, source: str, planned: Planned) -> bool:
    """Return whether an input is not one of the source, or of the member, of a specification."""
    member, _ = split_member(source)
    if (member is None) == bool(spec.members) or (member and member not in spec.members):
        return True
    kind = spec_of(spec, source).source.kind
    topics = {topic.topic for topic in kind.topics}
    return (
        (planned.unit == "offsets") != bool(topics)
        or (isinstance(kind, KafkaTopics) and planned.label not in topics)
        or _table_of(planned) != (kind.table if isinstance(kind, IcebergSourceSpec) else None)
    )


def _table_of(planned: Planned) -> str | None:
    """Return the table of a planned data file; None for an input of another kind."""
    snapshot = planned.snapshot if isinstance(planned, PlannedFile) else None
    return None if snapshot is None else snapshot.table


# --- The inputs of a published version, used when its source is away

# Only these errors mean that the source is away. An undefined connection, a wrong password or a
# folder without permission is a wrong setting of the deployment, and stays an error.
_AWAY: Final = (SourceUnreachableError, TopicNotFoundError, TableNotFoundError)


def is_away(error: TrainFeedError) -> bool:
    """Return whether ``error`` means that the source is gone, or does not answer now."""
    # Not ``isinstance``: the subclasses of StorageError have other causes (denied, full, …).
    return isinstance(error, _AWAY) or type(error) is StorageError


class PublishedInputs:
    """The inputs of an interval from its published version.

    Args:
        error: The error of the source itself.
    """

    def __init__(self, error: TrainFeedError) -> None:
        self._error = error

    def inputs(self, current: Manifest | None) -> Mapping[str, Planned]:
        """Return source string → planned range or file.

        Args:
            current: The published version.

        Raises:
            TrainFeedError: Nothing is published; the error of the source.
        """
        if current is None:
            raise self._error
        return {source: planned_of(old) for source, old in current.inputs.items()}
