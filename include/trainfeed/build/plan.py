"""Stage ``plan``: fix what an interval reads and makes, before anything is read.

The plan's name is made of the fingerprint and the planned generation, so two runs of one interval
meet at one plan. When the interval is published from an equal fingerprint there is nothing to do:
the verdict is ``identical``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trainfeed import faults
from trainfeed.build._code import code_digest, running_libraries
from trainfeed.build._inputs import (
    TopicWindow,
    late_policies,
    open_topics,
    resolve_inputs,
    retained,
)
from trainfeed.build._landing import is_landed
from trainfeed.build._lookups import lookup_digests
from trainfeed.build._pieces import cut, group_ranges, group_shards
from trainfeed.build._plan_file import Plan, PlannedInput, load_plan, save_plan
from trainfeed.build._ref import PlanRef
from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder, Manifest, canonical
from trainfeed.dataset.layout import generation_name
from trainfeed.dataset.manifest import FORMAT
from trainfeed.dataset.order import LATE_SPLIT, num_shards
from trainfeed.errors import ConflictError, SourceReplacedError, WindowOpenError
from trainfeed.spec import DatasetSpec, fingerprint_fields
from trainfeed.storage import Location, posix
from trainfeed.window import Interval, format_time, ready_at

__all__ = ["plan"]

logger = logging.getLogger(__name__)


def plan(
    spec: DatasetSpec,
    interval: Interval,
    env: Environment,
    *,
    rebuild: str | None = None,
    allow_gap: str | None = None,
) -> dict[str, Any]:
    """Plan one interval, or find that it is published already.

    Args:
        spec: The data set.
        interval: A tick of its schedule.
        env: Where things are.
        rebuild: Why a published interval is built again, as the next generation.
        allow_gap: Why records that retention deleted may be missing.

    Returns:
        The plan's reference, ``generation``, ``verdict`` (build or identical), ``seconds``, and
        per stage one ``{"unit": n}`` for every task, never none.

    Raises:
        WindowOpenError: The interval has not ended and settled yet.
        TopicNotFoundError: A topic is not there.
        OffsetOutOfRangeError: Retention deleted records of the interval, or may have.
        SourceReplacedError: The published version was built from another topic of that name.
        ConflictError: The interval is published from another fingerprint.
        UnsuitableStoreError: The publication root cannot publish atomically.
    """
    started = time.perf_counter()
    _require_closed(spec, interval, datetime.now(UTC))
    folder = DatasetFolder(Path(env.root), spec.name)
    _probe(folder)
    with open_topics(spec, env, folder, interval) as windows:
        planner = _Planner(spec, interval, env, folder)
        found = planner.identical(resolve_inputs(windows), rebuild)
        verdict = "build" if found is None else "identical"
        if found is None:
            found = planner.make(windows, rebuild=rebuild, allow_gap=allow_gap)
    faults.point("plan.after_save")
    seconds = round(time.perf_counter() - started, 3)
    logger.info("plan %s/%s: %s in %.1f s", spec.name, interval.name, verdict, seconds)
    return {
        **found.ref().to_json(),
        "generation": generation_name(found.generation),
        "verdict": verdict,
        **{
            stage: [{"unit": unit} for unit in range(len(units))]
            for stage, units in (
                ("ingest", found.ingest),
                ("preprocess", found.preprocess),
                ("convert", found.convert),
            )
        },
        "seconds": seconds,
    }


class _Planner:
    """Plans one interval of one data set."""

    def __init__(
        self, spec: DatasetSpec, interval: Interval, env: Environment, folder: DatasetFolder
    ) -> None:
        self._spec = spec
        self._interval = interval
        self._env = env
        self._folder = folder
        self._code, self._code_files = code_digest(spec)
        self._lookups = lookup_digests(spec)
        self._current = self._read_current()

    def identical(self, inputs: Mapping[str, PlannedInput], rebuild: str | None) -> Plan | None:
        """Return the plan of the published version when it is what this plan would make."""
        current = self._current
        if current is None:
            return None
        if current.gaps:
            inputs = _without_gaps(inputs, current)
        same = canonical.sha256_of(self._fingerprint_of(inputs)) == current.fingerprint
        same_topics = _identities(current.inputs) == _identities(
            {name: planned.model_dump() for name, planned in inputs.items()}
        )
        if same and same_topics and self._is_answered(rebuild):
            ref = PlanRef(self._spec.name, self._interval.name, current.plan)
            return load_plan(self._folder, ref)
        if rebuild is None:
            raise self._refusal(inputs, same_topics=same_topics)
        return None

    def make(
        self, windows: list[TopicWindow], *, rebuild: str | None, allow_gap: str | None
    ) -> Plan:
        """Write the plan down, or adopt the one that an earlier or parallel run wrote."""
        landed = {
            source: self._is_landed(planned) for source, planned in resolve_inputs(windows).items()
        }
        inputs, gaps = retained(windows, landed, allow_gap=allow_gap)
        fingerprint_of = self._fingerprint_of(inputs)
        fingerprint = canonical.sha256_of(fingerprint_of)
        generation = self._folder.last_generation(self._interval.name) + 1
        ranges = cut(inputs, self._spec.resources.records_per_task)
        groups = group_ranges(ranges, self._spec.resources.records_per_task)
        shards = self._shards(inputs)
        return save_plan(
            self._folder,
            Plan.model_validate(
                {
                    "format": FORMAT,
                    "dataset": self._spec.name,
                    "interval": self._interval_json(),
                    "plan_id": f"{fingerprint[:16]}-{generation_name(generation)}",
                    "generation": generation,
                    "supersedes": self._supersedes(rebuild),
                    "fingerprint": fingerprint,
                    "fingerprint_of": fingerprint_of,
                    "inputs": inputs,
                    "ranges": ranges,
                    "ingest": groups,
                    "preprocess": groups,
                    "convert": group_shards(
                        shards, ranges, groups, self._spec.resources.records_per_task
                    ),
                    "shards": shards,
                    "quality": [gate.model_dump() for gate in self._spec.quality],
                    "gaps": gaps,
                    "code": {"digest": self._code, "files": self._code_files},
                    "lookups": self._lookups,
                    "libraries": running_libraries(),
                    "schema": self._spec.schema_fields(),
                }
            ),
        )

    def _read_current(self) -> Manifest | None:
        generation = self._folder.current_generation(self._interval.name)
        if generation is None:
            return None
        manifest, _ = Manifest.read(self._folder.version(self._interval.name, generation))
        return manifest

    def _is_answered(self, rebuild: str | None) -> bool:
        """Whether no rebuild is asked, or the current generation is the one asked for."""
        assert self._current is not None  # noqa: S101 - for the type checker; callers looked
        supersedes = self._current.supersedes or {}
        return rebuild is None or supersedes.get("why") == rebuild

    def _refusal(self, inputs: Mapping[str, PlannedInput], *, same_topics: bool) -> Exception:
        current = self._current
        assert current is not None  # noqa: S101 - for the type checker; callers looked
        version = f"{self._spec.name}/{self._interval.name}/{generation_name(current.generation)}"
        remedy = (
            "the published version stays; to make the next generation from what is there now, run"
            " again with --rebuild WHY (Airflow: parameter 'rebuild')"
        )
        if not same_topics:
            return SourceReplacedError(
                f"{version} was built from {_identities(current.inputs)}, which was replaced by"
                f" {_identities({n: p.model_dump() for n, p in inputs.items()})}; {remedy}"
            )
        ref = PlanRef(self._spec.name, self._interval.name, current.plan)
        published = load_plan(self._folder, ref).fingerprint_of
        changes = "; ".join(_differences(published, self._fingerprint_of(inputs)))
        return ConflictError(f"{version} is published from other inputs: {changes}; {remedy}")

    def _supersedes(self, rebuild: str | None) -> dict[str, Any] | None:
        if self._current is None:
            return None
        return {"generation": self._current.generation, "why": rebuild}

    def _fingerprint_of(self, inputs: Mapping[str, PlannedInput]) -> dict[str, Any]:
        """Return everything that determines the content."""
        interval = self._interval_json()
        return {
            "format": FORMAT,
            "dataset": self._spec.name,
            "interval": {"start": interval["start"], "end": interval["end"]},
            "inputs": {source: [planned.start, planned.end] for source, planned in inputs.items()},
            "spec": fingerprint_fields(self._spec),
            "code": self._code,
            "lookups": self._lookups,
        }

    def _interval_json(self) -> dict[str, str]:
        return {
            "name": self._interval.name,
            "start": format_time(self._interval.start),
            "end": format_time(self._interval.end),
        }

    def _shards(self, inputs: Mapping[str, PlannedInput]) -> dict[str, int]:
        output = self._spec.output
        planned = sum(i.end - i.start for i in inputs.values())
        shards = {
            split: output.shards or num_shards(planned, share, output.samples_per_shard or 1)
            for split, share in self._spec.split.millionths.items()
        }
        separates = "separate" in late_policies(self._spec, inputs).values()
        return shards | ({LATE_SPLIT: 1} if separates else {})

    def _is_landed(self, planned: PlannedInput) -> bool:
        pieces = cut({"": planned}, self._spec.resources.records_per_task)
        landing = Location.parse(self._env.landing)
        # An empty range proves nothing: its records may be those that were deleted.
        return bool(pieces) and all(is_landed(landing, planned, piece) for piece in pieces)


def _probe(folder: DatasetFolder) -> None:
    """Refuse a file system, or a quota border, on which publishing would not be one rename."""
    versions = folder.path / "versions"
    with posix.map_errors(folder.path):
        for path in (folder.staging, versions):
            path.mkdir(parents=True, exist_ok=True)
    posix.probe(folder.staging, into=versions)


def _require_closed(spec: DatasetSpec, interval: Interval, now: datetime) -> None:
    ready = ready_at(interval, spec.source.settle)
    if now >= ready:
        return
    error = WindowOpenError(
        f"interval {interval.name} of data set {spec.name!r} ends at {format_time(interval.end)}"
        f" and settles for {spec.source.settle}: it can be planned from {format_time(ready)} on;"
        " nothing was read or written; run again then"
    )
    error.ready_at = ready
    raise error


def _identities(inputs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the topics behind inputs, as ``topic uuid in cluster``, sorted."""
    found = {f"{i['topic']} {i['topic_uuid']} in {i['cluster']}" for i in inputs.values()}
    return sorted(found)


def _without_gaps(inputs: Mapping[str, PlannedInput], current: Manifest) -> dict[str, PlannedInput]:
    """Return the inputs as the published version read them, where only a known gap differs."""
    gaps = {gap["source"] for gap in current.gaps}
    return {
        source: planned.model_copy(update={"start": current.inputs[source]["start"]})
        if source in gaps
        else planned
        for source, planned in inputs.items()
    }


def _differences(old: Any, new: Any, place: str = "") -> list[str]:
    """Return one line per value that differs, with its place."""
    if isinstance(old, dict) and isinstance(new, dict):
        lines = []
        for key in sorted(old.keys() | new.keys()):
            lines += _differences(old.get(key), new.get(key), f"{place}.{key}" if place else key)
        return lines
    return [] if old == new else [f"{place}: {old!r} → {new!r}"]
