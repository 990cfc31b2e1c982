"""The rules for records of each source: those that come late, and lines that are too long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta

from trainfeed.pipeline.members import parts_of
from trainfeed.pipeline.planned_lists import labels_of
from trainfeed.pipeline.plans import Planned
from trainfeed.specification import DatasetSpec, LateRule, LogsSourceSpec


def longest_line_bytes(spec: DatasetSpec) -> int | None:
    """Return the length beyond which a line is quarantined; None where no line is."""
    if spec.members:
        return None
    kind = spec.source.kind
    if not isinstance(kind, LogsSourceSpec) or kind.long_lines == "fail":
        return None
    return kind.max_line_bytes


def late_policies(spec: DatasetSpec, inputs: Mapping[str, Planned]) -> dict[str, str]:
    """Return source → policy for late records: keep, separate or fail."""
    return {source: rule.policy for source, rule in _late_rules(spec, inputs)}


def late_skews(spec: DatasetSpec, inputs: Mapping[str, Planned]) -> dict[str, timedelta]:
    """Return source → how far behind the interval's end stamps may lie, for the policy ``fail``."""
    rules = _late_rules(spec, inputs)
    return {source: rule.skew for source, rule in rules if rule.policy == "fail"}


def _late_rules(spec: DatasetSpec, inputs: Mapping[str, Planned]) -> Iterator[tuple[str, LateRule]]:
    for part in parts_of(spec, inputs):
        kind, labels = part.spec.source.kind, labels_of(part.inputs)
        rules = {label: kind.late_rule(label) for label in {*labels.values()}}
        for source, label in labels.items():
            yield part.source(source), rules[label]
