"""What an interval reads, whatever the kind of its source."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from trainfeed.pipeline.inputs._log_reader import LogReader
from trainfeed.pipeline.inputs._source_reader import SourceReader
from trainfeed.pipeline.inputs._topic_reader import TopicReader
from trainfeed.pipeline.plans import Planned
from trainfeed.specification import (
    DatasetSpec,
    KafkaTopics,
    LogsSourceSpec,
    RecordedSourceSpec,
    SourceKind,
)

__all__ = ["READERS", "late_policies", "late_skews", "reader_of"]

# What a specification says of a source → what plans and reads it.
READERS: Final[dict[type[SourceKind], SourceReader]] = {
    KafkaTopics: TopicReader(),
    RecordedSourceSpec: TopicReader(),
    LogsSourceSpec: LogReader(),
}


def reader_of(spec: DatasetSpec) -> SourceReader:
    """Return what plans and reads the source of a data set."""
    return READERS[type(spec.source.kind)]


def late_policies(spec: DatasetSpec, inputs: Mapping[str, Planned]) -> dict[str, str]:
    """Return per source what becomes of late records: keep, separate or fail."""
    kind = spec.source.kind
    return {source: kind.late_rule(planned.label).policy for source, planned in inputs.items()}


def late_skews(spec: DatasetSpec, inputs: Mapping[str, Planned]) -> dict[str, timedelta]:
    """Return, for the sources whose policy is to fail, how far after the end stamps may lie."""
    kind = spec.source.kind
    rules = {source: kind.late_rule(planned.label) for source, planned in inputs.items()}
    return {source: rule.skew for source, rule in rules.items() if rule.policy == "fail"}
