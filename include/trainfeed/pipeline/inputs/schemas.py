"""The schemas of values and keys: those of readers in the data set's folder, those of writers kept.

A topic behind a schema registry has values that name the schema of their writer by an id.
``ingest`` looks at the ids of the records of a task, gets each schema that is not kept yet from the
registry, and keeps it beside the landing files::

    <landing>/+schemas/<registry>/<id>.json      the schema, for good
    <landing>/+schemas/<registry>/<id>.unknown   empty: the registry lacked the id at some time
    <work>/spill/<plan id>/<task>.schemas.json   which ids the records of a task have

An id has one schema for good: that is what registries promise, so a build again needs none of them.
What lands anew is compared with the registry, and another schema under a known id is an error.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, Self

import pyarrow as pa

from trainfeed.core import canonical_json, faults
from trainfeed.core.printable_text import printable
from trainfeed.errors import (
    CodeChangedError,
    ConfigError,
    FormatError,
    NotFoundError,
    SchemaChangedError,
    SourceUnreachableError,
)
from trainfeed.files import read_plain
from trainfeed.files.records import RecordFile
from trainfeed.files.stores import Location
from trainfeed.pipeline.landed_ranges import (
    BUILD_AGAIN,
    landed_batches,
    landing_file,
    opened_landing,
)
from trainfeed.pipeline.plans import Plan, Planned, PlannedRange
from trainfeed.pipeline.stage import Stage
from trainfeed.specification import DatasetSpec, PayloadSpec, payloads, registries_of
from trainfeed.value_formats import (
    FramedValues,
    SchemaError,
    ValueFormat,
    WriterFields,
    WriterSchema,
    schema_ids,
    value_format,
    writer_fields,
)
from trainfeed.versions import Manifest
from trainfeed.versions.order import member_source

if TYPE_CHECKING:
    from trainfeed.pipeline.inputs.registries import SchemaRegistry

# --- The reader's schemas: files of the data set's folder, digested in the fingerprint

_MAX_BYTES: Final = 1 << 20
_RECORDED: Final = "recorded"


def payloads_of(spec: DatasetSpec, planned: Planned) -> dict[str, PayloadSpec]:
    """Return ``value`` and ``key`` of an input, as far as they have a schema."""
    for topic in spec.source.kind.topics:
        if topic.topic in {"", planned.label}:
            return payloads(topic)
    return {}


def schema_digests(spec: DatasetSpec) -> dict[str, str]:
    """Return place → SHA-256 of every file with a reader's schema; each is read and parsed.

    Raises:
        ConfigError: A file is missing, or its schema is not valid.
        FormatError: A path is that of something else than a plain file, or too large.
        StorageError: A file cannot be read.
    """
    return {place: _digest(data) for place, _, data in _reader_schemas(spec)}


def _reader_schemas(spec: DatasetSpec) -> Iterator[tuple[str, PayloadSpec, bytes]]:
    topics = () if spec.members else spec.source.kind.topics
    for topic in topics:
        for part, payload in payloads(topic).items():
            data = _read(spec, payload)
            _format_of(spec, payload, data, part)
            yield f"{topic.topic or _RECORDED}.{part}", payload, data
    for name, each in spec.members.items():
        for place, payload, data in _reader_schemas(each):
            yield member_source(name, place), payload, data


def reader_format(spec: DatasetSpec, plan: Plan, planned: Planned, part: str) -> ValueFormat:
    """Return the format of the values or keys of an input, with the reader's schema of the plan.

    Args:
        spec: The data set.
        plan: The plan.
        planned: The input.
        part: ``value`` or ``key``.

    Raises:
        CodeChangedError: The file is not the one of the plan.
        ConfigError: It is missing, or its schema is not valid.
    """
    payload = payloads_of(spec, planned)[part]
    data = _read(spec, payload)
    known: Mapping[str, str] = plan.fingerprint_of.get("schemas", {})
    places = (f"{planned.label}.{part}", f"{_RECORDED}.{part}")
    if _digest(data) not in {known.get(place) for place in places}:
        raise CodeChangedError(
            f"schema {payload.reader_schema} of data set {spec.name!r} changed since the plan was"
            " made; landing files are kept, nothing was published; run the build again"
        )
    return _format_of(spec, payload, data, part)


def _format_of(spec: DatasetSpec, payload: PayloadSpec, data: bytes, part: str) -> ValueFormat:
    try:
        return value_format(payload.format, data, payload.message, is_key=part == "key")
    except SchemaError as error:
        raise ConfigError(
            f"schema {payload.reader_schema} of data set {spec.name!r} cannot be used: {error};"
            " nothing was read; correct the file"
        ) from error


def _read(spec: DatasetSpec, payload: PayloadSpec) -> bytes:
    path = spec.folder / str(payload.reader_schema)
    try:
        return read_plain(path, follow=True, max_bytes=_MAX_BYTES)
    except NotFoundError as error:
        raise ConfigError(
            f"schema {payload.reader_schema} of data set {spec.name!r} is missing: {path}; put the"
            " file there, or correct its name in dataset.yaml"
        ) from error


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# --- A kept schema of a writer

# No topic has a name with this sign, so no landing file is below.
_FOLDER: Final = "+schemas"


@dataclass(frozen=True)
class Reference:
    """A schema that another one refers to by a name."""

    name: str
    schema: str


@dataclass(frozen=True)
class KeptSchema:
    """A writer's schema, as a registry had it when a record of it landed first.

    Attributes:
        registry: Name of the registry's connection.
        id: Its number there.
        kind: AVRO, PROTOBUF or JSON.
        schema: Its text.
        references: Those that it uses, each after those that it uses itself.
    """

    registry: str
    id: int
    kind: str
    schema: str
    references: list[Reference] = field(default_factory=list)

    @classmethod
    def of(cls, registry: str, number: int, found: WriterSchema) -> KeptSchema:
        """Return the record of a registry's answer."""
        references = [Reference(name, text) for name, text in found.references.items()]
        return cls(registry, number, found.kind, found.text, references)

    @property
    def sha256(self) -> str:
        """Digest of what the schema says, without its number."""
        references = [[each.name, each.schema] for each in self.references]
        return canonical_json.sha256_of([self.kind, self.schema, references])

    def writer(self) -> WriterSchema:
        """Return the schema for reading values."""
        references = {each.name: each.schema for each in self.references}
        return WriterSchema(self.kind, self.schema, references)


_SCHEMAS: Final = RecordFile(
    KeptSchema,
    "a kept schema of a registry",
    f"nothing was published; remove the file and {BUILD_AGAIN}, which asks the registry",
    max_bytes=8 * _MAX_BYTES,
)


def _file_of(landing: Location, registry: str, number: int) -> Location:
    return landing / f"{_FOLDER}/{registry}/{number}.json"


def _unknown_file(landing: Location, registry: str, number: int) -> Location:
    """Return the file whose presence says that the registry once lacked an id."""
    return landing / f"{_FOLDER}/{registry}/{number}.unknown"


def kept_schema(landing: Location, registry: str, number: int) -> KeptSchema | None:
    """Return the kept schema of an id, or None.

    Raises:
        FormatError: The file is damaged.
    """
    file = _file_of(landing, registry, number)
    if not file.exists():
        return None
    data = file.read_bytes(max_bytes=_SCHEMAS.max_bytes)
    return _SCHEMAS.parse(data, file.uri, registry=registry, id=number)


def keep_schema(landing: Location, schema: KeptSchema) -> KeptSchema:
    """Keep a schema, unless its id has one; return the one that is kept.

    Raises:
        SchemaChangedError: The id has another one.
    """
    file = _file_of(landing, schema.registry, schema.id)
    known = kept_schema(landing, schema.registry, schema.id)
    if known is None:
        file.parent.make_dir()
        if file.create_exclusive(_SCHEMAS.dumps(schema)):
            faults.point("ingest.after_schema")
            return schema
        # Another process was faster; what it has written is there as a whole.
        known = kept_schema(landing, schema.registry, schema.id)
    if known is None or known.sha256 != schema.sha256:
        digests = [each.sha256[:12] for each in (known, schema) if each is not None]
        raise SchemaChangedError(
            f"schema {schema.id} of registry {schema.registry!r} is another one than before:"
            f" {' → '.join(digests)}; kept: {file.uri}, and the landed records; nothing was"
            " published; an id keeps its schema for good, so this registry was built anew or its"
            " address was changed: bring the old one back, or name the new one by a connection of"
            " its own in dataset.yaml (registry: NAME)"
        )
    return known


# --- The ids that the records of a task have


@dataclass(frozen=True)
class MetSchemas:
    """The writers' schemas of the records of one task of ``ingest``.

    Attributes:
        plan_id: The plan.
        unit: Number of the task.
        is_complete: False while records land whose ids were not compared with the registry yet.
        schemas: Registry → id → digest of the schema; None for an id that the registry lacks.
    """

    plan_id: str
    unit: int
    is_complete: bool
    schemas: dict[str, dict[str, str | None]] = field(default_factory=dict)


_NOTES: Final = RecordFile(
    MetSchemas,
    "the schemas that the records of a task have",
    f"nothing was published; {BUILD_AGAIN}",
    max_bytes=canonical_json.MAX_BYTES,
)


def _note_of(stage: Stage, unit: int) -> Location:
    return stage.spill / f"{unit:05d}.schemas.json"


def _has_note(stage: Stage, unit: int) -> bool:
    """Return whether a task reads a source with schemas; of a union, its member is asked."""
    group = stage.plan.ingest[unit]
    own = stage.of_source(stage.plan.ranges[group[0]].source) if group else stage
    return bool(registries_of(own.spec.source.kind))


def _read_note(stage: Stage, unit: int) -> MetSchemas | None:
    file = _note_of(stage, unit)
    if not file.exists():
        return None
    data = file.read_bytes(max_bytes=_NOTES.max_bytes)
    return _NOTES.parse(data, file.uri, plan_id=stage.plan.plan_id, unit=unit)


class _Registry:
    """A registry that is opened by the first question."""

    def __init__(self, name: str, settings: Mapping[str, Mapping[str, Any]]) -> None:
        self.name = name
        self._settings = settings
        self._opened: SchemaRegistry | None = None

    def schema(self, number: int) -> WriterSchema | None:
        if self._opened is None:
            # Here, because workers read kept schemas alone, and ask nobody.
            from trainfeed.pipeline.inputs.registries import SchemaRegistry, registry_settings

            settings = registry_settings(self._settings, self.name)
            self._opened = SchemaRegistry(self.name, settings)
        return self._opened.schema(number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._opened is not None:
            self._opened.close()


class TaskSchemas:
    """Finds and keeps the writers' schemas of one task of ``ingest``.

    Args:
        stage: The stage.
        unit: Number of the task.
    """

    def __init__(self, stage: Stage, unit: int) -> None:
        self._stage = stage
        self._unit = unit
        # Range → registry → ids: what a damaged landing file showed is forgotten with its range.
        self._ids: dict[PlannedRange, dict[str, set[int]]] = {}
        self._compares = False

    def seen(self, piece: PlannedRange) -> Callable[[pa.RecordBatch], None] | None:
        """Return what has to see every batch of a range, once; None for one without schemas."""
        own = self._stage.of_source(piece.source).spec
        parts = payloads_of(own, self._stage.plan.inputs[piece.source])
        if not parts:
            return None
        ids: dict[str, set[int]] = {each.registry: set() for each in parts.values()}
        self._ids[piece] = ids

        def see(batch: pa.RecordBatch) -> None:
            for part, payload in parts.items():
                ids[payload.registry] |= schema_ids(batch.column(part))

        return see

    def begin(self, *, lands: bool) -> None:
        """Write down that records land, so that the next attempt compares their ids as well.

        Args:
            lands: Whether the source is read in this attempt.
        """
        if not _has_note(self._stage, self._unit):
            return
        before = self._before()
        self._compares = lands or (before is not None and not before.is_complete)
        if self._compares:
            self._write(MetSchemas(self._stage.plan.plan_id, self._unit, is_complete=False))

    def finish(self, lender: Location | None = None) -> None:
        """Keep every schema that was met, and write down which ones they are.

        Args:
            lender: A landing area whose kept schemas are taken; no registry is asked. None for the
                registries.

        Raises:
            SourceUnreachableError: A registry does not answer, and a schema is not kept yet, or
                records landed anew.
            SchemaChangedError: An id has another schema than before.
            ConfigError: A registry is not configured, or refuses the account.
        """
        if not _has_note(self._stage, self._unit):
            return
        ids: dict[str, set[int]] = {}
        for of_range in self._ids.values():
            for name, numbers in of_range.items():
                ids.setdefault(name, set()).update(numbers)
        found = {
            name: self._lent(lender, name, each) if lender else self._asked(name, each)
            for name, each in sorted(ids.items())
        }
        plan_id = self._stage.plan.plan_id
        self._write(MetSchemas(plan_id, self._unit, is_complete=True, schemas=found))

    def _lent(self, lender: Location, name: str, ids: Iterable[int]) -> dict[str, str | None]:
        digests: dict[str, str | None] = {}
        for number in sorted(ids):
            known = kept_schema(lender, name, number)
            if known is not None:
                keep_schema(self._stage.landing, known)
            digests[str(number)] = None if known is None else known.sha256
        return digests

    def _asked(self, name: str, ids: Iterable[int]) -> dict[str, str | None]:
        landing = self._stage.landing
        digests: dict[str, str | None] = {}
        with _Registry(name, self._stage.env.registries) as registry:
            for number in sorted(ids):
                before = kept_schema(landing, name, number)
                known = None if self._compares else before
                if known is None:
                    answer = self._answer(registry, number)
                    # Of an id that was deleted from the registry, records may be there still.
                    kept = KeptSchema.of(name, number, answer) if answer is not None else None
                    known = before if kept is None else keep_schema(landing, kept)
                if known is None:
                    file = _unknown_file(landing, name, number)
                    file.parent.make_dir()
                    file.create_exclusive(b"")
                digests[str(number)] = None if known is None else known.sha256
        return digests

    def _answer(self, registry: _Registry, number: int) -> WriterSchema | None:
        """Ask for a schema; without a registry, one that was not there before is not there."""
        try:
            return registry.schema(number)
        except (ConfigError, SourceUnreachableError):
            file = _unknown_file(self._stage.landing, registry.name, number)
            if self._compares or not file.exists():
                raise
            return None

    def _before(self) -> MetSchemas | None:
        """Return what an earlier attempt wrote down; a damaged note is as one that began."""
        try:
            return _read_note(self._stage, self._unit)
        except FormatError:
            return MetSchemas(self._stage.plan.plan_id, self._unit, is_complete=False)

    def _write(self, note: MetSchemas) -> None:
        stage = self._stage
        data, file = _NOTES.dumps(note), _note_of(stage, self._unit)
        before = self._before()
        if before == note:
            return
        if before is not None and before.is_complete and note.is_complete:
            from trainfeed.versions.waive import lift_refused

            # What an earlier attempt preprocessed by other schemas is not used again.
            lift_refused(stage.folder, stage.plan.interval["name"], stage.plan.plan_id)
        stage.spill.make_dir()

        def write(target: BinaryIO) -> None:
            target.write(data)

        file.write_atomic(write)


def lend_schemas(stage: Stage, lender: Location) -> None:
    """Give a stage with landing files of its own the schemas that are kept in another place.

    Args:
        stage: The stage.
        lender: The landing area that has them.
    """
    for unit, group in enumerate(stage.plan.ingest):
        schemas = TaskSchemas(stage, unit)
        for index in group:
            piece = stage.plan.ranges[index]
            see = schemas.seen(piece)
            if see is None:
                continue
            file = landing_file(stage.landing, stage.plan.inputs[piece.source], piece)
            with opened_landing(file) as landing:
                for batch in landed_batches(landing):
                    see(batch)
        schemas.finish(lender)


# --- What preprocessing and publication read of it


def met_schemas(stage: Stage, units: Iterable[int]) -> dict[str, dict[int, str | None]]:
    """Return registry → id → digest of the writers' schemas of some tasks of ``ingest``.

    Raises:
        NotFoundError: A task has not written them down, or not completed it.
        FormatError: A file is damaged.
    """
    found: dict[str, dict[int, str | None]] = {}
    for unit in units:
        if not _has_note(stage, unit):
            continue
        note = _read_note(stage, unit)
        if note is None or not note.is_complete:
            raise NotFoundError(
                f"{_note_of(stage, unit).uri} is missing, which says what schemas the records of"
                f" task {unit} of ingest have; nothing was published; {BUILD_AGAIN}"
            )
        for registry, ids in note.schemas.items():
            known = found.setdefault(registry, {})
            known.update({int(number): digest for number, digest in ids.items()})
    return found


def writer_schemas(stage: Stage, ranges: Sequence[int]) -> dict[str, dict[int, WriterSchema]]:
    """Return registry → id → writer's schema, for the records of ranges.

    Ids that a registry lacks are left out.

    Raises:
        NotFoundError: ``ingest`` has not kept one of them.
        FormatError: A file is damaged, or has another schema than ``ingest`` kept.
    """
    wanted = set(ranges)
    units = [n for n, group in enumerate(stage.plan.ingest) if not wanted.isdisjoint(group)]
    return {
        registry: {
            number: _kept(stage, registry, number, digest).writer()
            for number, digest in ids.items()
            if digest is not None
        }
        for registry, ids in met_schemas(stage, units).items()
    }


def _kept(stage: Stage, registry: str, number: int, digest: str) -> KeptSchema:
    found = kept_schema(stage.landing, registry, number)
    if found is None or found.sha256 != digest:
        file = _file_of(stage.landing, registry, number)
        raise NotFoundError(
            f"{file.uri} is missing, or is not the schema that ingest has kept ({digest[:12]});"
            f" nothing was published; {BUILD_AGAIN}"
        )
    return found


def framed_values(
    stage: Stage,
    planned: Planned,
    part: str,
    writers: Mapping[str, Mapping[int, WriterSchema]],
) -> FramedValues:
    """Return what reads the values or keys of an input.

    Args:
        stage: The stage.
        planned: The input.
        part: ``value`` or ``key``.
        writers: The schemas of ``writer_schemas``.
    """
    payload = payloads_of(stage.spec, planned)[part]
    form = reader_format(stage.spec, stage.plan, planned, part)
    return FramedValues(form, writers.get(payload.registry, {}))


def schemas_of_version(stage: Stage) -> dict[str, Any]:
    """Return the entry ``schemas`` of a manifest; empty for a source without schemas."""
    if not registries_of(stage.spec.source.kind):
        return {}
    readers = [
        {"part": place, "file": str(payload.reader_schema), "sha256": _digest(data)}
        for place, payload, data in _reader_schemas(stage.spec)
    ]
    met = met_schemas(stage, range(len(stage.plan.ingest)))
    writers = [
        {"registry": registry, "id": number, "sha256": digest}
        for registry, ids in sorted(met.items())
        for number, digest in sorted(ids.items())
    ]
    return {"readers": readers, "writers": writers}


# --- How the schemas of writers changed since an earlier version

_MOST_CHARS: Final = 100


class WriterChange(NamedTuple):
    """One change from a writer's schema to a newer one of the same records.

    Attributes:
        field: The field, behind the name of the record.
        change: ``writer_added``, ``writer_removed`` or ``writer_changed``.
        before: Its type before, with the id of the schema; empty if there was none.
        now: Its type now, likewise.
    """

    field: str
    change: str
    before: str
    now: str


def writer_changes(stage: Stage, earlier: Manifest) -> list[WriterChange]:
    """Return how the writers' schemas that are new in a build differ from those before them.

    Each is compared with the one of the next smaller id that has the same kind and record name,
    among those of the earlier version and the new ones. Schemas that nobody uses any more, and
    those that are not kept any more, are no changes.

    Args:
        stage: The stage, after ``ingest``.
        earlier: The manifest of the version to compare with.
    """
    if not registries_of(stage.spec.source.kind):
        return []
    known: dict[str, dict[int, KeptSchema]] = {}
    for each in earlier.schemas.get("writers", ()):
        found = kept_schema(stage.landing, each["registry"], each["id"])
        if found is not None and found.sha256 == each["sha256"]:
            known.setdefault(found.registry, {})[found.id] = found
    changes: list[WriterChange] = []
    met = met_schemas(stage, range(len(stage.plan.ingest)))
    for registry, before in sorted(known.items()):
        for number, digest in sorted(met.get(registry, {}).items()):
            if number in before or digest is None:
                continue
            now = _kept(stage, registry, number, digest)
            changes += _changes_to(now, before)
            before[number] = now
    return changes


def _changes_to(now: KeptSchema, others: Mapping[int, KeptSchema]) -> Iterator[WriterChange]:
    new = writer_fields(now.writer())
    for number in sorted(others, reverse=True):
        other = others[number]
        old = writer_fields(other.writer())
        if number > now.id or new is None or old is None:
            continue
        if (other.kind, old.record) == (now.kind, new.record):
            yield from _differences(old, new, number, now.id)
            return


def _differences(
    old: WriterFields, new: WriterFields, before: int, now: int
) -> Iterator[WriterChange]:
    for name in dict.fromkeys([*new.types, *old.types]):
        sides = old.types.get(name), new.types.get(name)
        if sides[0] == sides[1]:
            continue
        change = "writer_changed" if None not in sides else "writer_added"
        change = "writer_removed" if sides[1] is None else change
        shown = (
            "" if each is None else f"{printable(each)[:_MOST_CHARS]} in schema {number}"
            for each, number in zip(sides, (before, now), strict=True)
        )
        yield WriterChange(f"{new.record}.{name}".lstrip("."), change, *shown)
