"""Makes the plan of an interval, and finds out whether the same is already published."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NamedTuple

from trainfeed.core import canonical_json
from trainfeed.core.config import Environment
from trainfeed.core.intervals import Interval, format_time
from trainfeed.core.reading_rules import NEWEST, ReadingRules
from trainfeed.errors import ConfigError, FormatError, NotFoundError
from trainfeed.functions import guessed_types, running_libraries
from trainfeed.pipeline.inputs.protocols import Inputs, KnownInputs
from trainfeed.pipeline.inputs.record_rules import late_policies
from trainfeed.pipeline.inputs.recorded_edges import require_neighbours_agree
from trainfeed.pipeline.inputs.source_readers import markers_of
from trainfeed.pipeline.inputs.unions import ranges_of_topics
from trainfeed.pipeline.members import MemberPart, parts_of
from trainfeed.pipeline.parameters import interval_spec
from trainfeed.pipeline.planner.fingerprint import (
    OutdatedVersion,
    PublishedVersion,
    Recipe,
    acknowledged,
    awaited_labels,
    causes_of,
    gone_inputs,
    refusal_of,
    replaced_error,
    require_labels,
    skip_without_labels,
)
from trainfeed.pipeline.plans import (
    MadeBy,
    Plan,
    Planned,
    PlannedRange,
    PlannedReference,
    cut,
    has_list,
    listed,
    plan_of_version,
    read_statistics,
    replaced_inputs,
    save_plan,
)
from trainfeed.pipeline.reports import JsonObject
from trainfeed.pipeline.tasks import MOST_FILES, Sizes, group_by_member, group_shards
from trainfeed.specification import DatasetSpec, earlier_versions
from trainfeed.uploads import AppliedUpload, applied_uploads
from trainfeed.versions import DatasetFolder, Manifest, Skip, Version
from trainfeed.versions.interval_notes import telling_landing_removal
from trainfeed.versions.layout import plan_id_of
from trainfeed.versions.manifest import FORMAT
from trainfeed.versions.order import LATE_SPLIT, check_shards, num_shards, split_member

# --- Chooses the versions of earlier intervals that the gates of a plan compare with

logger = logging.getLogger(__name__)


def earlier_references(
    spec: DatasetSpec, folder: DatasetFolder, interval: str
) -> list[PlannedReference]:
    """Return the newest generations of the nearest earlier intervals that have one.

    A version that is damaged, or goes away meanwhile, is left out with a warning in the log: it
    must not keep later intervals from being built. Statistics are read only if a gate needs them.

    Args:
        spec: The data set; its gates say how many references they need.
        folder: The same below the publication root.
        interval: Name of the interval that is planned.

    Returns:
        So many references, the newest interval first; fewer if there are fewer.

    Raises:
        StorageError: The publication root refused or failed.
    """
    reads = read_statistics(gate.model_dump() for gate in spec.quality)
    found = _references(folder, interval, statistics=reads)
    return list(islice(found, earlier_versions(spec.quality)))


def _references(
    folder: DatasetFolder, interval: str, *, statistics: bool
) -> Iterator[PlannedReference]:
    # Names of intervals are times, which sort as text.
    earlier = [name for name in folder.intervals() if name < interval]
    for name in reversed(earlier):
        generation = folder.current_generation(name)
        if generation is None:
            continue
        try:
            version = Version.open(folder.version(name, generation))
            if statistics:
                version.statistics()
        except (FormatError, NotFoundError) as error:
            logger.warning("gates of %s do not compare with %s: %s", interval, name, error)
            continue
        yield PlannedReference(
            interval=name, generation=generation, manifest_sha256=version.manifest_sha256
        )


# --- The shards of a version: their number, fixed before anything is read


def planned_shards(spec: DatasetSpec, inputs: Mapping[str, Planned]) -> dict[str, int]:
    """Return split → number of its shards, from the size of the inputs.

    Raises:
        ConfigError: There would be too many shards.
    """
    output = spec.output
    planned = sum(
        sum(i.end - i.start for i in part.inputs.values()) // Sizes.of(part.spec).span_per_record
        for part in parts_of(spec, inputs)
    )
    shards = {
        split: output.shards or num_shards(planned, share, output.samples_per_shard or 1)
        for split, share in spec.split.millionths.items()
    }
    separates = "separate" in late_policies(spec, inputs).values()
    shards |= {LATE_SPLIT: 1} if separates else {}
    check_shards(spec.name, shards)
    return shards


# --- A plan before anything is known about its interval but inputs and generation


def fresh_plan(  # noqa: PLR0913 - what is known of the interval
    recipe: Recipe,
    interval: Interval,
    generation: int,
    inputs: Mapping[str, Planned],
    uploads: Sequence[AppliedUpload],
    *,
    ranges: Sequence[PlannedRange] | None = None,
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
    parts = [_Share.of(part) for part in parts_of(spec, inputs)]
    ranges = [piece for each in parts for piece in each.pieces()] if ranges is None else [*ranges]
    most = MOST_FILES if has_list(inputs) else None
    groups = group_by_member(ranges, {each.part.name: each.sizes.task_span for each in parts}, most)
    shards = planned_shards(spec, inputs)
    plan = Plan.model_validate(
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
            "inputs": dict(inputs),
            "ranges": ranges,
            "ingest": groups,
            "preprocess": groups,
            "convert": group_shards(shards, *_written(parts, ranges, len(groups))),
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
    return listed(plan)


class _Share(NamedTuple):
    """One member of a union, or the one source, with the sizes of its tasks."""

    part: MemberPart
    sizes: Sizes

    @classmethod
    def of(cls, part: MemberPart) -> _Share:
        return cls(part, Sizes.of(part.spec).grown(part.spec, part.inputs))

    def pieces(self) -> Iterator[PlannedRange]:
        return self.part.pieces(cut(self.part.inputs, self.sizes.range_span))


def _written(
    parts: Sequence[_Share], ranges: Sequence[PlannedRange], num_groups: int
) -> tuple[int, int, int]:
    """Return what ``group_shards`` takes: for a union in records, the common unit of members."""
    spans = Counter[str | None]()
    for piece in ranges:
        spans[split_member(piece.source)[0]] += piece.end - piece.start
    if len(parts) == 1:
        return spans.total(), num_groups, parts[0].sizes.task_span
    planned = sum(spans[each.part.name] // each.sizes.span_per_record for each in parts)
    per_task = max(each.sizes.task_span // each.sizes.span_per_record for each in parts)
    return planned, num_groups, per_task


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


# --- Asks for the types of CSV lookups, once: where they were guessed so far, and are not any more

_TEXT = "string"


def require_declared_types(spec: DatasetSpec, folder: DatasetFolder) -> None:
    """Refuse a build in which columns of lookups would become text that were something else.

    Raises:
        ConfigError: The newest published version has guessed types, and a column that is not text
            has none in ``lookup_types``.
    """
    newest = _newest(folder) if spec.csv_lookups else None
    if newest is None or newest.rules is not ReadingRules.GUESSED:
        return
    changed = [
        line
        for name in spec.csv_lookups
        if name in newest.lookups
        for line in _undeclared(spec, name)
    ]
    if changed:
        raise ConfigError(
            f"cells of CSV lookups are text now, unless dataset.yaml declares their type; so far"
            f" these columns of data set {spec.name!r} were guessed: {'; '.join(changed)}; nothing"
            " was published; declare each in lookup_types, with its old type or as str, such as"
            f" lookup_types: {{{changed[0].partition('.')[0]}: {{COLUMN: int64}}}}; versions that"
            " are published stay as they are"
        )


def _newest(folder: DatasetFolder) -> Manifest | None:
    for interval in reversed(folder.intervals()):
        generation = folder.current_generation(interval)
        # A damaged version is told elsewhere, and is no reason against a build of another interval.
        with suppress(FormatError, NotFoundError):
            if generation is not None:
                return Manifest.read(folder.version(interval, generation))[0]
    return None


def _undeclared(spec: DatasetSpec, name: str) -> Iterator[str]:
    declared = spec.lookup_types.get(name, {})
    for column, kind in guessed_types(spec, name).items():
        if kind != _TEXT and column not in declared:
            yield f"{name}.{column} as {kind}"


# --- Makes the plan of an interval, and finds out whether the same is already published


class Planner:
    """Plans one interval of one data set.

    Args:
        spec: The data set.
        interval: The interval.
        env: Folders and connections.
        folder: The data set below the publication root.
        why: The reason that a person gave for this build, or None. Without one, no plan is made
            whose content was withdrawn.
    """

    def __init__(
        self,
        spec: DatasetSpec,
        interval: Interval,
        env: Environment,
        folder: DatasetFolder,
        why: str | None = None,
    ) -> None:
        spec = interval_spec(spec, folder, interval)
        self._spec = spec
        self._interval = interval
        self._env = env
        self._folder = folder
        self._why = why
        self._recipe = Recipe.of(spec)
        self._uploads = [] if spec.uploads is None else applied_uploads(folder, interval.name)
        self._labels = awaited_labels(spec, interval, self._uploads)
        # The order matters: a version that another run publishes between the two reads is either
        # found as the current one, or has the generation that this run plans, and is adopted.
        self._next_generation = folder.last_generation(interval.name) + 1
        generation = folder.current_generation(interval.name)
        path = None if generation is None else folder.version(interval.name, generation)
        self._current = None if path is None else Manifest.read(path)[0]

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
            WithdrawnError: The same, and a version with the fingerprint of now was withdrawn.
        """
        current = self._current
        if current is None:
            return None
        plan = self.unchanged(source)
        if plan is not None:
            return plan if rebuild in {None, plan.rebuild} else None
        if rebuild is None:
            inputs = source.inputs(current)
            now = self._values_like(current, inputs)
            self._acknowledged(inputs)
            raise refusal_of(self._published(current), self._recipe, inputs, now, self._uploads)
        return None

    def unchanged(self, source: KnownInputs) -> Plan | None:
        """Return the plan of the published version if its fingerprint is that of a new plan."""
        current = self._current
        if current is None:
            return None
        inputs = source.inputs(current)
        fingerprint = canonical_json.sha256_of(self._values_like(current, inputs))
        if replaced_inputs(current, inputs) or fingerprint != current.fingerprint:
            return None
        return self._plan_of(current, inputs)

    def outdated(self, source: KnownInputs) -> OutdatedVersion | None:
        """Return the published version if a new plan would give another one; else None.

        Args:
            source: The inputs of the interval.

        Raises:
            SourceReplacedError: The version was built from another topic or file, or from a file
                that is gone. Nobody but a person can say which of the sources is the right one.
        """
        current = self._current
        if current is None:
            return None
        inputs = source.inputs(current)
        now = self._values_like(current, inputs)
        lost = [*replaced_inputs(current, inputs), *gone_inputs(current, inputs)]
        if lost:
            raise replaced_error(self._published(current).name, lost)
        if canonical_json.sha256_of(now) == current.fingerprint:
            return None
        published = self._published(current)
        return OutdatedVersion(published, causes_of(published, self._recipe, now, self._uploads))

    def skip(self, source: Inputs) -> Skip | None:
        """Return the decision to skip the interval; None if it is published or will be built.

        Raises:
            WindowOpenError: Its source, or its uploads, are waited for.
            SourceMissingError: Its source did not come in time, and has to come.
            ConflictError: Its ranges of offsets do not meet those of its published neighbours.
        """
        if self._current is not None:
            return None
        decision = source.skip()
        if decision is not None:
            self._require_neighbours_agree(ranges_of_topics(self._spec, source), [])
        return decision or skip_without_labels(self._labels, datetime.now(UTC))

    def make(
        self,
        source: Inputs,
        *,
        rebuild: str | None,
        allow_gap: str | None,
        ranges: Sequence[PlannedRange] | None = None,
        made_by: MadeBy | None = None,
    ) -> Plan:
        """Write the plan of ``draft``, or adopt the one that an earlier or parallel run wrote."""
        plan = self.draft(source, rebuild, allow_gap, ranges, made_by)
        return save_plan(self._folder, plan, joins=made_by is not None)

    def draft(
        self,
        source: Inputs,
        rebuild: str | None,
        allow_gap: str | None,
        ranges: Sequence[PlannedRange] | None,
        made_by: MadeBy | None,
    ) -> Plan:
        """Return the plan of the next generation; nothing is written.

        Args:
            source: The inputs of the interval.
            rebuild: The reason for building again, or None; then that for withdrawals is kept.
            allow_gap: The reason for accepting that retention deleted records, or None.
            ranges: The pieces of the inputs that are read; None to cut them by the specification.
            made_by: What makes the plan, if it is no plain build.

        Raises:
            OffsetOutOfRangeError: Retention deleted records of the interval, or may have.
            EmptyUnprovenError: Nothing would be read, and nothing proves the interval empty; or an
                inner join has no upload.
            WithdrawnError: The same content was withdrawn, and nobody gave a reason since.
            ConflictError: Its ranges of offsets do not meet those of its published neighbours.
            ConfigError: Cells of a CSV lookup were guessed so far, and nothing declares their type.
        """
        unlabelled = require_labels(self._labels)
        with telling_landing_removal(self._folder, self._interval.name):
            inputs, gaps = source.without_losses(self._current, allow_gap)
        self._require_neighbours_agree(inputs, gaps)
        current = self._current
        supersedes = {"generation": current.generation, "why": rebuild} if current else None
        # A replay repeats a build, so it reads as that one did.
        rules = NEWEST if current is None or made_by != "replay" else current.rules
        if rules is not ReadingRules.GUESSED:
            require_declared_types(self._spec, self._folder)
        plan = self._plan(self._next_generation, inputs, ranges, rules)
        acknowledges = self._acknowledged(inputs)
        rebuild = self._why if acknowledges and rebuild is None else rebuild
        update = {
            "supersedes": supersedes,
            "rebuild": rebuild,
            "gaps": gaps,
            "marker": source.marker,
            "markers": markers_of(source),
            "passed_over": dict(source.passed_over),
            "empty_because": unlabelled | source.empty_because(inputs, allow_gap),
            "references": earlier_references(self._spec, self._folder, self._interval.name),
            "made_by": made_by,
            "acknowledges": acknowledges,
        }
        return plan.model_copy(update=update)

    def _require_neighbours_agree(
        self, inputs: Mapping[str, Planned], gaps: list[dict[str, Any]]
    ) -> None:
        schedule = self._spec.schedule_model()
        require_neighbours_agree(self._folder, schedule, self._interval, inputs, gaps)

    def _acknowledged(self, inputs: Mapping[str, Planned]) -> list[str]:
        # By any rules: a version that was withdrawn may have been read by earlier ones.
        values = (self._values(inputs, rules) for rules in ReadingRules)
        fingerprints = {canonical_json.sha256_of(each) for each in values}
        return acknowledged(self._folder, self._interval.name, fingerprints, self._why)

    def _plan_of(self, current: Manifest, inputs: Mapping[str, Planned]) -> Plan:
        """Return the plan of the published version; write a removed or damaged file again."""
        found = plan_of_version(self._folder, self._interval.name, current.plan)
        if found is not None:
            return found
        plan = self._plan(current.generation, inputs, rules=current.rules)
        return save_plan(self._folder, plan.model_copy(update=decided_then(current)))

    def _plan(
        self,
        generation: int,
        inputs: Mapping[str, Planned],
        ranges: Sequence[PlannedRange] | None = None,
        rules: ReadingRules = NEWEST,
    ) -> Plan:
        given = (self._recipe, self._interval, generation, inputs, self._uploads)
        return fresh_plan(*given, ranges=ranges, rules=rules)

    def _values(self, inputs: Mapping[str, Planned], rules: ReadingRules) -> JsonObject:
        """Return everything that determines the content."""
        return self._recipe.fingerprint_of(self._interval, inputs, self._uploads, rules)

    def _values_like(self, current: Manifest, inputs: Mapping[str, Planned]) -> JsonObject:
        """Return what determines the content of today, by the rules of a published version."""
        return self._values(inputs, current.rules)

    def _published(self, current: Manifest) -> PublishedVersion:
        return PublishedVersion(self._folder, self._interval.name, current)
