"""A plan before anything is known about its interval but inputs and generation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from trainfeed import canonical_json
from trainfeed.dataset import Manifest
from trainfeed.dataset.layout import plan_id_of
from trainfeed.dataset.manifest import FORMAT
from trainfeed.intervals import Interval, format_time
from trainfeed.pipeline._ref import JsonObject
from trainfeed.pipeline.planner._planned_shards import planned_shards
from trainfeed.pipeline.planner._recipe import Recipe
from trainfeed.pipeline.plans import (
    Plan,
    Planned,
    PlannedRange,
    PlannedReference,
    Sizes,
    cut,
    group_ranges,
    group_shards,
)
from trainfeed.reading_rules import NEWEST, ReadingRules
from trainfeed.uploads import AppliedUpload
from trainfeed.usercode import running_libraries

__all__ = ["decided_then", "fresh_plan"]


def fresh_plan(  # noqa: PLR0913 - what is known of the interval
    recipe: Recipe,
    interval: Interval,
    generation: int,
    inputs: Mapping[str, Planned],
    uploads: Sequence[AppliedUpload],
    *,
    ranges: list[PlannedRange] | None = None,
    rules: ReadingRules = NEWEST,
) -> Plan:
    """Return the plan of a generation: a first one, without reason, gaps and references.

    Args:
        recipe: Specification, code, lookups and documents.
        interval: The interval.
        generation: Number of the generation.
        inputs: Source string → planned input.
        uploads: The uploads of the interval, in order of arrival.
        ranges: The pieces of the inputs that are read; None to cut them by the specification.
        rules: The rules by which values are read.

    Raises:
        ConfigError: There would be too many shards.
    """
    spec = recipe.spec
    fingerprint_of = recipe.fingerprint_of(interval, inputs, uploads, rules)
    fingerprint = canonical_json.sha256_of(fingerprint_of)
    sizes = Sizes.of(spec)
    ranges = cut(inputs, sizes.range_span) if ranges is None else ranges
    groups = group_ranges(ranges, sizes.task_span)
    shards = planned_shards(spec, inputs)
    return Plan.model_validate(
        {
            "format": FORMAT,
            "dataset": spec.name,
            "interval": _as_json(interval),
            "plan_id": plan_id_of(fingerprint, generation),
            "generation": generation,
            "supersedes": None,
            "rebuild": None,
            "fingerprint": fingerprint,
            "fingerprint_of": fingerprint_of,
            "inputs": inputs,
            "ranges": ranges,
            "ingest": groups,
            "preprocess": groups,
            "convert": group_shards(shards, ranges, groups, sizes.task_span),
            "shards": shards,
            "quality": [gate.model_dump() for gate in spec.quality],
            "gaps": [],
            "code": {"digest": recipe.code, "files": list(recipe.code_files)},
            "lookups": recipe.lookups,
            "documents": recipe.documents,
            "libraries": running_libraries(),
            "schema": spec.schema_fields(),
            "uploads": [asdict(upload) for upload in uploads],
        }
    )


def _as_json(interval: Interval) -> dict[str, str]:
    return {
        "name": interval.name,
        "start": format_time(interval.start),
        "end": format_time(interval.end),
    }


def decided_then(current: Manifest) -> JsonObject:
    """Return the fields of a published version's plan that do not follow from its inputs."""
    return {
        "supersedes": current.supersedes,
        "rebuild": (current.supersedes or {}).get("why"),
        "gaps": current.gaps,
        "empty_because": current.empty_because,
        "passed_over": current.passed_over,
        "references": [PlannedReference(**each) for each in current.references],
    }
