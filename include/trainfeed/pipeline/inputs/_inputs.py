"""What an interval reads, whatever the kind of its source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Protocol

from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder, Manifest, Skip
from trainfeed.pipeline.inputs._log_inputs import LogInputs
from trainfeed.pipeline.inputs._topic_inputs import TopicInputs, open_topics
from trainfeed.pipeline.plans import Planned
from trainfeed.specification import DatasetSpec
from trainfeed.window import Interval

__all__ = ["Inputs", "late_policies", "late_skews", "open_inputs"]


class KnownInputs(Protocol):
    """What the planner asks to find out whether an interval is published already."""

    def inputs(self, current: Manifest | None) -> Mapping[str, Planned]:
        """Return source string → planned range or file.

        Args:
            current: The published version, or None.
        """


class Inputs(KnownInputs, Protocol):
    """What the planner asks of the source of an interval, whatever its kind.

    Attributes:
        marker: Name of the file that marked the source as complete; None where none does.
    """

    @property
    def marker(self) -> str | None: ...

    def skip(self) -> Skip | None:
        """Return the decision to leave the interval out; None when it is built.

        Asked of an interval that is not published.
        """

    def without_losses(
        self, current: Manifest | None, allow_gap: str | None
    ) -> tuple[Mapping[str, Planned], list[dict[str, Any]]]:
        """Return what can be read of the inputs, and all gaps that somebody allowed.

        Args:
            current: The published version, or None.
            allow_gap: Why further loss is accepted, or None to refuse any.
        """

    def empty_because(self, inputs: Mapping[str, Planned], allow_gap: str | None) -> dict[str, str]:
        """Return per source why nothing is read of it: a function of what is planned alone.

        Args:
            inputs: What ``without_losses`` returned.
            allow_gap: As given to it.

        Returns:
            Nothing while anything is read.
        """


@contextmanager
def open_inputs(
    spec: DatasetSpec, env: Environment, folder: DatasetFolder, interval: Interval
) -> Iterator[Inputs]:
    """Open the source of an interval.

    Raises:
        TopicNotFoundError: A topic is not there.
        IngestError: A broker does not answer.
        StorageError: The file system of the logs does not answer.
    """
    if spec.source.logs is not None:
        yield LogInputs(spec, env, folder, interval)
        return
    with open_topics(spec, env, folder, interval) as windows:
        yield TopicInputs(spec, env, windows)


def late_policies(spec: DatasetSpec, inputs: Mapping[str, Planned]) -> dict[str, str]:
    """Return per source what becomes of late records: keep, separate or fail."""
    if spec.source.logs is not None:
        return dict.fromkeys(inputs, "keep")
    if spec.source.recorded is not None:
        return dict.fromkeys(inputs, spec.source.recorded.late)
    by_topic = {topic.topic: topic.late for topic in spec.source.kafka}
    return {source: by_topic[planned.label] for source, planned in inputs.items()}


def late_skews(spec: DatasetSpec, inputs: Mapping[str, Planned]) -> dict[str, timedelta]:
    """Return, for the sources whose policy is to fail, how far after the end stamps may lie."""
    by_topic = {topic.topic: topic.skew for topic in spec.source.kafka}
    if spec.source.recorded is not None:
        by_topic = dict.fromkeys(
            (planned.label for planned in inputs.values()), spec.source.recorded.skew
        )
    policies = late_policies(spec, inputs)
    return {
        source: by_topic[planned.label]
        for source, planned in inputs.items()
        if policies[source] == "fail"
    }
