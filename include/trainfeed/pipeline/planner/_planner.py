"""Makes the plan of an interval, and finds out whether the same is already published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime

from trainfeed import canonical_json
from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder, Manifest, Skip
from trainfeed.dataset.layout import generation_name
from trainfeed.dataset.manifest import FORMAT
from trainfeed.errors import ConflictError, NotFoundError, SourceReplacedError
from trainfeed.intervals import Interval, format_time
from trainfeed.pipeline._ref import JsonObject, PlanRef
from trainfeed.pipeline.inputs import Inputs, KnownInputs
from trainfeed.pipeline.planner._earlier_versions import earlier_references
from trainfeed.pipeline.planner._interval_uploads import (
    awaited_labels,
    require_labels,
    skip_without_labels,
    told_uploads,
)
from trainfeed.pipeline.planner._planned_shards import planned_shards
from trainfeed.pipeline.plans import (
    Plan,
    Planned,
    PlannedRange,
    PlannedReference,
    Sizes,
    cut,
    first_few,
    group_ranges,
    group_shards,
    load_plan,
    replaced_inputs,
    save_plan,
    told_changes,
)
from trainfeed.specification import DatasetSpec, fingerprint_fields
from trainfeed.uploads import applied_uploads
from trainfeed.usercode import (
    code_digest,
    document_digests,
    lookup_digests,
    running_libraries,
)

__all__ = ["Planner"]


class Planner:
    """Plans one interval of one data set.

    Args:
        spec: The data set.
        interval: The interval.
        env: Folders and connections.
        folder: The data set below the publication root.
    """

    def __init__(
        self, spec: DatasetSpec, interval: Interval, env: Environment, folder: DatasetFolder
    ) -> None:
        self._spec = spec
        self._interval = interval
        self._env = env
        self._folder = folder
        self._code, self._code_files = code_digest(spec)
        self._lookups = lookup_digests(spec)
        self._documents = document_digests(spec)
        self._uploads = [] if spec.uploads is None else applied_uploads(folder, interval.name)
        self._labels = awaited_labels(spec, interval, self._uploads)
        # The order matters: a version that another run publishes between the two reads is either
        # found as the current one, or has the generation that this run plans, and is adopted.
        self._next_generation = folder.last_generation(interval.name) + 1
        self._current = self._read_current()

    @property
    def folder(self) -> DatasetFolder:
        """The data set below the publication root."""
        return self._folder

    @property
    def interval(self) -> str:
        """Name of the interval."""
        return self._interval.name

    @property
    def current(self) -> Manifest | None:
        """The manifest of the published version, or None."""
        return self._current

    def identical(self, source: KnownInputs, rebuild: str | None) -> Plan | None:
        """Return the plan of the published version if a new plan would give the same version.

        Args:
            source: The inputs of the interval.
            rebuild: The reason for building the interval again, or None.

        Raises:
            SourceReplacedError: The version was built from another topic or file, and ``rebuild``
                is None.
            ConflictError: The version has another fingerprint, and ``rebuild`` is None.
        """
        current = self._current
        if current is None:
            return None
        plan = self.unchanged(source)
        if plan is not None:
            return plan if rebuild in {None, plan.rebuild} else None
        if rebuild is None:
            inputs = source.inputs(current)
            replaced = replaced_inputs(current, inputs)
            raise self._refusal(current, self._fingerprint_of(inputs), replaced)
        return None

    def unchanged(self, source: KnownInputs) -> Plan | None:
        """Return the plan of the published version if its fingerprint is that of a new plan.

        Args:
            source: The inputs of the interval.
        """
        current = self._current
        if current is None:
            return None
        inputs = source.inputs(current)
        fingerprint = canonical_json.sha256_of(self._fingerprint_of(inputs))
        if replaced_inputs(current, inputs) or fingerprint != current.fingerprint:
            return None
        return self._plan_of(current, inputs)

    def skip(self, source: Inputs) -> Skip | None:
        """Return the decision to skip the interval; None if it is published or will be built.

        Raises:
            WindowOpenError: Its source, or its uploads, are waited for.
            SourceMissingError: Its source did not come in time, and has to come.
        """
        if self._current is not None:
            return None
        return source.skip() or skip_without_labels(self._labels, datetime.now(UTC))

    def make(
        self,
        source: Inputs,
        *,
        rebuild: str | None,
        allow_gap: str | None,
        ranges: list[PlannedRange] | None = None,
    ) -> Plan:
        """Write the plan file, or adopt the one that an earlier or parallel run wrote.

        Args:
            source: The inputs of the interval.
            rebuild: The reason for building the interval again, or None.
            allow_gap: The reason for accepting that retention deleted records, or None.
            ranges: The pieces of the inputs that are read; None to cut them by the specification.

        Raises:
            OffsetOutOfRangeError: Retention deleted records of the interval, or may have.
            EmptyUnprovenError: Nothing would be read, and nothing proves the interval empty; or an
                inner join has no upload.
        """
        unlabelled = require_labels(self._labels)
        inputs, gaps = source.without_losses(self._current, allow_gap)
        supersedes = None
        if self._current is not None:
            supersedes = {"generation": self._current.generation, "why": rebuild}
        plan = self._plan(self._next_generation, inputs, ranges)
        update = {
            "supersedes": supersedes,
            "rebuild": rebuild,
            "gaps": gaps,
            "marker": source.marker,
            "empty_because": unlabelled | source.empty_because(inputs, allow_gap),
            "references": earlier_references(self._spec, self._folder, self._interval.name),
        }
        return save_plan(self._folder, plan.model_copy(update=update))

    def _read_current(self) -> Manifest | None:
        generation = self._folder.current_generation(self._interval.name)
        if generation is None:
            return None
        manifest, _ = Manifest.read(self._folder.version(self._interval.name, generation))
        return manifest

    def _plan_of(self, current: Manifest, inputs: Mapping[str, Planned]) -> Plan:
        """Return the plan of the published version; write its file again if it was removed."""
        ref = PlanRef(self._spec.name, self._interval.name, current.plan)
        try:
            return load_plan(self._folder, ref)
        except NotFoundError:
            plan = self._plan(current.generation, inputs)
            why = (current.supersedes or {}).get("why")
            update = {
                "supersedes": current.supersedes,
                "rebuild": why,
                "gaps": current.gaps,
                "empty_because": current.empty_because,
                "references": [PlannedReference(**each) for each in current.references],
            }
            return save_plan(self._folder, plan.model_copy(update=update))

    def _plan(
        self,
        generation: int,
        inputs: Mapping[str, Planned],
        ranges: list[PlannedRange] | None = None,
    ) -> Plan:
        fingerprint_of = self._fingerprint_of(inputs)
        fingerprint = canonical_json.sha256_of(fingerprint_of)
        sizes = Sizes.of(self._spec)
        ranges = cut(inputs, sizes.range_span) if ranges is None else ranges
        groups = group_ranges(ranges, sizes.task_span)
        shards = planned_shards(self._spec, inputs)
        return Plan.model_validate(
            {
                "format": FORMAT,
                "dataset": self._spec.name,
                "interval": self._interval_json(),
                "plan_id": f"{fingerprint[:16]}-{generation_name(generation)}",
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
                "quality": [gate.model_dump() for gate in self._spec.quality],
                "gaps": [],
                "code": {"digest": self._code, "files": self._code_files},
                "lookups": self._lookups,
                "documents": self._documents,
                "libraries": running_libraries(),
                "schema": self._spec.schema_fields(),
                "uploads": [asdict(upload) for upload in self._uploads],
            }
        )

    def _refusal(
        self, current: Manifest, fingerprint_of: JsonObject, replaced: list[str]
    ) -> Exception:
        version = f"{self._spec.name}/{self._interval.name}/{generation_name(current.generation)}"
        remedy = (
            "the published version stays; to make the next generation from what is there now, run"
            " again with --rebuild WHY (Airflow: parameter 'rebuild')"
        )
        if replaced:
            return SourceReplacedError(
                f"inputs of {version} were replaced: {first_few(replaced)}; {remedy}"
            )
        ref = PlanRef(self._spec.name, self._interval.name, current.plan)
        try:
            published = load_plan(self._folder, ref).fingerprint_of
        except NotFoundError:
            # Without the plan, the manifest has only these two values to compare. The others are in
            # the fingerprint, which shows that something differs, but not what.
            published = {"code": current.code["digest"], "lookups": current.lookups}
            fingerprint_of = {key: fingerprint_of[key] for key in published}
        published = told_uploads(published, current.uploads.get("files", []))
        now = told_uploads(fingerprint_of, [asdict(upload) for upload in self._uploads])
        changes, code = told_changes(self._folder, self._spec, published, now)
        return ConflictError(
            f"{version} is published from other inputs: {changes or 'its plan file is gone'};"
            f" {remedy}{code}"
        )

    def _fingerprint_of(self, inputs: Mapping[str, Planned]) -> JsonObject:
        """Return everything that determines the content."""
        interval = self._interval_json()
        uploads = [upload.fingerprint() for upload in self._uploads]
        return {
            "format": FORMAT,
            "dataset": self._spec.name,
            "interval": {"start": interval["start"], "end": interval["end"]},
            "inputs": {source: planned.fingerprint() for source, planned in inputs.items()},
            "spec": fingerprint_fields(self._spec),
            "code": self._code,
            "lookups": self._lookups,
            # Both are left out where there is none: fingerprints of earlier versions stay the same.
            **({"documents": self._documents} if self._documents else {}),
            **({"uploads": uploads} if self._spec.uploads is not None else {}),
        }

    def _interval_json(self) -> dict[str, str]:
        return {
            "name": self._interval.name,
            "start": format_time(self._interval.start),
            "end": format_time(self._interval.end),
        }
