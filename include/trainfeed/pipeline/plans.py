"""Plans: the inputs and outputs of an interval, fixed before anything is read.

The parts of a plan, the references of its gates, its file below the publication root, how its work
is cut into tasks, and how two runs of one generation meet at one file.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, TypeAlias, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    ValidationError,
    model_serializer,
)

from trainfeed.core import canonical_json, faults
from trainfeed.core.intervals import Interval, parse_time
from trainfeed.core.reading_rules import ReadingRules
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.files import is_there
from trainfeed.files.records import ONCE_UNSEALED, RecordFile
from trainfeed.pipeline.planned_lists import (
    ListedPieces,
    keep_list,
    kept_list,
    list_of_plan,
)
from trainfeed.pipeline.reports import PlanRef
from trainfeed.sources import landing_folder
from trainfeed.versions import DatasetFolder, Manifest, Version
from trainfeed.versions.arrow_list import FileList
from trainfeed.versions.file_list import FACTS, LISTED_ABOVE, KeptList, Listed
from trainfeed.versions.layout import generation_name, plan_id_of
from trainfeed.versions.listed_files import ListedFiles
from trainfeed.versions.order import shard_name

if TYPE_CHECKING:
    from trainfeed.files.stores import Location

# --- The parts of a plan: inputs, ranges and shards

# Lines of a list in a message; further ones are only counted.
_SHOWN_LINES: Final = 10
_LOGS: Final = "logs"
_KIND: Final = r"^[a-z][a-z0-9_]{0,31}$"
# Keys of inputs that were added after the format.
_ADDED: Final = frozenset({"kind", "layouts", "snapshot"})
# Kinds of files that are read from their start only, compressed or not.
_WHOLE: Final = frozenset({"tfrecord"})

Unit: TypeAlias = Literal["offsets", "bytes"]


class PlanPart(BaseModel):
    """A model of a plan file: frozen, strict, without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class _Counted(PlanPart):
    """A half-open range of positions of one source; subclasses add the identity of the source.

    Attributes:
        start: First position.
        end: Position behind the last.
        kind: Kind of the source as one lowercase word, which becomes part of a path. None, and not
            in the file, for topics and log files, which the other keys tell apart.
    """

    start: int
    end: int
    kind: Annotated[str, Field(pattern=_KIND)] | None = None

    @model_serializer(mode="wrap")
    def _without_none(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave keys out where they are None that were added after the format."""
        value: dict[str, Any] = handler(self)
        return {key: each for key, each in value.items() if key not in _ADDED or each is not None}


class PlannedInput(_Counted):
    """One partition of a topic, or of a source like a topic: positions are offsets of records."""

    connection: str
    topic: str
    topic_uuid: str
    cluster: str
    partition: int

    unit: ClassVar[Unit] = "offsets"
    is_cut: ClassVar[bool] = True

    @property
    def label(self) -> str:
        """The name under which late records are counted."""
        return self.topic

    @property
    def landing_folder(self) -> str:
        """Folder of its landing files, relative to the landing area."""
        folder = landing_folder(self.topic, self.topic_uuid, self.partition)
        return folder if self.kind is None else f"_{self.kind}/{folder}"

    def fingerprint(self) -> Any:
        """The part of the input that determines the content of a version."""
        return [self.start, self.end]

    def replaced(self, old: Mapping[str, Any]) -> str | None:
        """Describe how the topic differs from that of a published version, or return None."""
        if (old["topic_uuid"], old["cluster"]) == (self.topic_uuid, self.cluster):
            return None
        return (
            f"{self.topic}: {old['topic_uuid']} in cluster {old['cluster']} → {self.topic_uuid}"
            f" in cluster {self.cluster}"
        )


class PlannedSnapshot(PlanPart):
    """The snapshot of a table of Iceberg that added a data file.

    Attributes:
        table: Namespace and name of the table.
        table_uuid: The table's own id, which stays when it is renamed.
        id: Id of the snapshot.
        sequence: Its sequence number; 0 in tables of format 1.
        columns: Digest of the columns that are read: their ids, names and types at the end of the
            interval.
    """

    table: str
    table_uuid: str
    id: int
    sequence: int
    columns: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class PlannedFile(_Counted):
    """One file with its identity: positions are bytes of the stored, perhaps compressed, file.

    Attributes:
        path: Path of the file below the location of the connection; of a table's file, its URI.
        compression: none, gzip, zstd, bz2, lz4 or snappy.
        timestamp_ms: Timestamp of every record of the file: the start of the interval; of a
            table's file, the time of its commit.
        start: 0.
        end: Length of the file.
        modified_ms: Modification time, milliseconds since 1970, by the clock of the store.
        file_id: Number of the file in the store, or None if the protocol does not give it.
        checksum: Checksum by the store, or None if the protocol does not give it.
        kind: Format of a file of rows or records; offsets of its records are their numbers. None
            for log files.
        layouts: Digest of the file that says where the rows of all files of the interval lie, and
            for files of CSV what their headers are; None, and not in the file, for other log files
            and for inputs that were not planned to be read.
        snapshot: The snapshot that added a table's file; None, and not in the file, for others.
    """

    connection: str
    path: str
    compression: str
    timestamp_ms: int
    modified_ms: int
    file_id: int | None
    checksum: str | None
    layouts: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    snapshot: PlannedSnapshot | None = None

    unit: ClassVar[Unit] = "bytes"

    @property
    def label(self) -> str:
        """The name under which late records are counted."""
        return self.kind or _LOGS

    @property
    def is_cut(self) -> bool:
        """Whether the file can be read in pieces; compressed data is read from its start only."""
        return self.compression == "none" and self.kind not in _WHOLE

    @property
    def landing_folder(self) -> str:
        """Folder of its landing files: a digest of all facts, so only equal plans share it."""
        facts = self.model_dump(exclude={"layouts"})
        return f"_{self.label}/{canonical_json.sha256_of(facts)[:32]}"

    def fingerprint(self) -> Any:
        """The part of the input that determines the content of a version."""
        value: dict[str, Any] = {"length": self.end}
        if self.checksum is not None:
            value["checksum"] = self.checksum
        if self.snapshot is not None:
            value["columns"] = self.snapshot.columns
        return value

    def changes(self, old: Mapping[str, Any]) -> list[str]:
        """Return the differences from an earlier state, in the facts that both sides have."""
        return [
            f"{what} {old[name]} → {value}"
            for name, what in _FILE_IDENTITY.items()
            if None not in {old[name], value := getattr(self, name)} and old[name] != value
        ]

    def changes_at(self, place: Location, *, asks_checksum: bool = True) -> list[str]:
        """Return the differences of the file that is there now, in the facts that both have.

        Args:
            place: Where the file is.
            asks_checksum: Whether its checksum is asked for if all else is equal; it may cost a
                pass over the file.

        Raises:
            NotFoundError: No file is there.
        """
        planned, info = self.model_dump(), place.stat()
        now = self.model_copy(
            update={
                "end": info.size_bytes,
                "modified_ms": info.modified_ms,
                "file_id": info.file_id,
                "checksum": None,
            }
        )
        changes = now.changes(planned)
        if changes or not asks_checksum or self.checksum is None:
            return changes
        return now.model_copy(update={"checksum": place.checksum()}).changes(planned)

    def replaced(self, old: Mapping[str, Any]) -> str | None:
        """Describe how the file differs from that of a published version, or return None."""
        # Equal length and checksum mean equal bytes: only the time was set, or the file was
        # written again with the same content.
        is_same = self.checksum is not None and (
            (self.end, self.checksum) == (old["end"], old["checksum"])
        )
        changes = [] if is_same else self.changes(old)
        return f"{self.path}: {', '.join(changes)}" if changes else None


_FILE_IDENTITY: Final = {
    "file_id": "file id",
    "end": "length",
    "modified_ms": "modification time",
    "checksum": "checksum",
}

Planned: TypeAlias = PlannedInput | PlannedFile
_ANY: Final[TypeAdapter[Planned]] = TypeAdapter(Planned)


class PlannedRange(PlanPart):
    """A piece of an input: the content of one landing file, or a range of a log file.

    ``start`` and ``end`` are offsets of a topic, or bytes of the stored log file. A compressed file
    is one range; the offsets of its records count decompressed bytes.
    """

    source: str
    start: int
    end: int


class PlannedUpload(PlanPart):
    """An upload whose labels are joined; the fields are those of ``AppliedUpload``."""

    number: Annotated[int, Field(ge=1)]
    name: str
    kind: Literal["csv", "jsonl", "parquet"]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    rows: Annotated[int, Field(ge=0)]


class PlannedShard(PlanPart):
    """One shard to write."""

    split: str
    index: int


def unit_of_input(value: Mapping[str, Any]) -> Unit:
    """Return the unit of an input's positions, from a manifest of any version."""
    return "bytes" if "path" in value else "offsets"


def planned_of(value: Mapping[str, Any]) -> Planned:
    """Return an input from its JSON in a manifest or a plan.

    Raises:
        ValidationError: ``value`` is no input that this version of trainfeed knows.
    """
    return _ANY.validate_python(value)


def cut(inputs: Mapping[str, Planned], range_span: int) -> list[PlannedRange]:
    """Cut inputs into ranges of at most ``range_span`` offsets or bytes.

    An input that cannot be cut, such as a compressed file, is one range. An empty input gives none.
    """
    return [
        PlannedRange(source=source, start=start, end=min(start + step, planned.end))
        for source, planned in sorted(inputs.items(), key=lambda item: item[0].encode())
        if (step := range_span if planned.is_cut else planned.end - planned.start) > 0
        for start in range(planned.start, planned.end, step)
    ]


def first_few(lines: Sequence[str]) -> str:
    """Return lines as part of a message: the first ones, and the number of the others."""
    more = len(lines) - _SHOWN_LINES
    return "; ".join([*lines[:_SHOWN_LINES], *([f"and {more} more"] if more > 0 else [])])


def replaced_inputs(current: Manifest, inputs: Mapping[str, Planned]) -> list[str]:
    """Return one line per source of the published version that was replaced by another."""
    lines = {
        line
        for source, planned in inputs.items()
        if (old := current.inputs.get(source)) is not None
        and (line := planned.replaced(old)) is not None
    }
    return sorted(lines)


# --- References of a plan: the published versions of earlier intervals that gates compare with

_OF_STATISTICS: Final = frozenset({"drift"})


def read_statistics(quality: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether one of the gates reads the statistics of references."""
    return any(gate.get("check") in _OF_STATISTICS for gate in quality)


class PlannedReference(PlanPart):
    """One published version of an earlier interval.

    Attributes:
        interval: Name of the interval.
        generation: Number of the generation.
        manifest_sha256: SHA-256 of its manifest, in hex.
    """

    interval: str
    generation: Annotated[int, Field(ge=1)]
    manifest_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

    def open(self, folder: DatasetFolder) -> Version:
        """Open the version.

        Raises:
            NotFoundError: The version was removed, withdrawn or replaced since the plan was made.
            FormatError: The version is damaged.
            StorageError: The publication root refused or failed.
        """
        try:
            version = Version.open(folder.version(self.interval, self.generation))
        except NotFoundError as error:
            raise self._gone(folder, "is gone") from error
        if is_there(folder.withdrawal_mark(self.interval, self.generation)):
            raise self._gone(folder, "was withdrawn")
        if version.manifest_sha256 != self.manifest_sha256:
            raise self._gone(folder, "has another manifest")
        return version

    def is_usable(self, folder: DatasetFolder, *, statistics: bool) -> bool:
        """Whether the version can be opened.

        Args:
            folder: The data set below the publication root.
            statistics: Whether its statistics are read as well.

        Raises:
            StorageError: The publication root refused or failed, which says nothing about it.
        """
        try:
            version = self.open(folder)
            if statistics:
                version.statistics()
        except (FormatError, NotFoundError):
            return False
        return True

    def _gone(self, folder: DatasetFolder, what: str) -> NotFoundError:
        name = f"{folder.name}/{self.interval}/{generation_name(self.generation)}"
        return NotFoundError(
            f"{name}, with which gates of the plan compare, {what} since the plan was made; nothing"
            " was published; build the interval again (in Airflow: clear the run from plan on): it"
            " then compares with what is there"
        )


# --- The plan of one interval: its inputs, their pieces, and the shards

logger = logging.getLogger(__name__)


# Keys that were added later. They are left out where they do not apply, so that the bytes of other
# plans stay the same.
_OPTIONAL: Final = frozenset(
    {
        "marker",
        "passed_over",
        "empty_because",
        "documents",
        "uploads",
        "references",
        "made_by",
        "acknowledges",
        "file_list",
        "markers",
    }
)
# The rule for outdated versions, or a replay of quarantined records.
MadeBy: TypeAlias = Literal["outdated", "replay"]


class Plan(PlanPart):
    """Everything that the stages of one build must agree on.

    Attributes:
        rebuild: The reason of a rebuild, or None.
        fingerprint_of: The values whose digest is ``fingerprint``.
        inputs: Source string → planned input.
        ranges: Landing files, or pieces of log files, in order of source and offset.
        ingest: Indices into ``ranges``, one list per task.
        preprocess: Indices into ``ranges``, one list per task and spill file.
        convert: Shards, one list per task.
        shards: Number of shards per split; its keys are the splits, ``late`` included.
        quality: The gates of the specification.
        documents: Name → SHA-256 of every file that the version gets from the data set's folder;
            not in the file if there is none.
        gaps: Ranges that are known to be lost, each with the reason for accepting it.
        marker: Name of the file that marked the folder of logs as complete, or None.
        markers: Member of a union → name of such a file; not in the file if there is none.
        passed_over: Name → reason of every entry of the folder of logs that is not read; not in
            the file if there is none. It is no part of the fingerprint.
        empty_because: Source string → why nothing is read of it. If any source has records to
            read, the mapping is empty and not in the file.
        uploads: Uploads whose labels are joined, in order of arrival; not in the file if there are
            none.
        references: Versions of earlier intervals that gates compare with, the newest interval
            first; not in the file if there are none.
        made_by: What made the plan; None, and not in the file, for a plain build.
        acknowledges: Digests of the withdrawals of the interval that were there when a person gave
            the reason of this build; not in the file if there are none.
        file_list: The list that has the files and their pieces; None, and not in the file, for a
            plan that has them itself. With a list, the file has no ``inputs`` and no ``ranges``,
            neither here nor in ``fingerprint_of``; in memory both are made from the list by need.
    """

    format: int
    dataset: str
    interval: dict[str, str]
    plan_id: str
    generation: Annotated[int, Field(ge=1)]
    supersedes: dict[str, Any] | None
    rebuild: str | None
    fingerprint: str
    fingerprint_of: dict[str, Any]
    inputs: Mapping[str, Planned]
    ranges: Sequence[PlannedRange]
    ingest: list[list[int]]
    preprocess: list[list[int]]
    convert: list[list[PlannedShard]]
    shards: dict[str, Annotated[int, Field(ge=1)]]
    quality: list[dict[str, Any]]
    gaps: list[dict[str, Any]]
    code: dict[str, Any]
    lookups: dict[str, str]
    libraries: dict[str, str]
    fields: list[dict[str, Any]] = Field(alias="schema")
    marker: str | None = None
    markers: dict[str, str] = Field(default_factory=dict)
    passed_over: dict[str, str] = Field(default_factory=dict)
    empty_because: dict[str, str] = Field(default_factory=dict)
    documents: dict[str, str] = Field(default_factory=dict)
    uploads: list[PlannedUpload] = Field(default_factory=list)
    references: list[PlannedReference] = Field(default_factory=list)
    made_by: MadeBy | None = None
    acknowledges: list[str] = Field(default_factory=list)
    file_list: ListedFiles | None = None

    @property
    def rules(self) -> ReadingRules:
        """The reading rules of the version; without a number they are the first ones."""
        return ReadingRules(self.fingerprint_of.get("reading_rules", ReadingRules.GUESSED))

    @property
    def sources(self) -> list[str]:
        """Source strings, sorted by their UTF-8 bytes; source indices are indices into this."""
        if isinstance(self.inputs, Listed):
            return self.inputs.files.sources
        return sorted(self.inputs, key=str.encode)

    @property
    def span(self) -> int:
        """The offsets or bytes of all ranges."""
        if isinstance(self.ranges, ListedPieces):
            return self.ranges.span
        return sum(each.end - each.start for each in self.ranges)

    @property
    def fingerprint_values(self) -> dict[str, Any]:
        """The values whose digest is the fingerprint, those of the inputs included."""
        if self.file_list is None:
            return self.fingerprint_of
        return {**self.fingerprint_of, "inputs": _fingerprints(self.inputs)}

    def require_fingerprint(self) -> None:
        """Compare the files of a list with the fingerprint, which takes longer than all else.

        Raises:
            FormatError: They are those of another plan.
        """
        if self.file_list is not None and self.fingerprint != canonical_json.sha256_of(
            self.fingerprint_values
        ):
            raise FormatError(
                f"expected the list of the files of plan {self.plan_id}, got one of another"
                f" fingerprint; {PLANS.remedy}"
            )

    @property
    def splits(self) -> list[str]:
        """Names of the splits in name order."""
        return sorted(self.shards)

    @property
    def interval_name(self) -> str:
        """Name of the interval."""
        return self.interval["name"]

    @property
    def times(self) -> Interval:
        """The interval, with its ends as times."""
        start, end = (parse_time(self.interval[edge]) for edge in ("start", "end"))
        return Interval(start, end, self.interval_name)

    def shard_name(self, shard: PlannedShard) -> str:
        """Return the file name of a shard."""
        return shard_name(self.dataset, shard.split, shard.index, self.shards[shard.split])

    def all_shards(self) -> list[PlannedShard]:
        """Return every shard, in split and shard order."""
        return [
            PlannedShard(split=split, index=index)
            for split in self.splits
            for index in range(self.shards[split])
        ]

    def ref(self) -> PlanRef:
        """Return the reference by which later stages find this plan."""
        return PlanRef(self.dataset, self.interval["name"], self.plan_id)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of the file; keys that do not apply are left out."""
        listed: set[str] = set() if self.file_list is None else {"inputs", "ranges"}
        value = self.model_dump(by_alias=True, exclude=listed)
        if listed:
            value |= {"inputs": {}, "ranges": []}
        return {key: each for key, each in value.items() if key not in _OPTIONAL or each}

    def to_bytes(self) -> bytes:
        """Return the canonical JSON, without the seal of the file."""
        return canonical_json.dumps(self.to_json())

    def sha256(self) -> str:
        """Return the digest of the canonical JSON, in hex."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def cut_sha256(self) -> str:
        """Return the digest of the fingerprint, and of pieces and tasks of all inputs, in hex."""
        ranges = "ranges" if self.file_list is None else "file_list"
        cut = self.model_dump(include={"fingerprint", ranges, "preprocess"})
        return canonical_json.sha256_of(cut)


def _from_json(value: Any) -> Plan:
    try:
        plan = Plan.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise FormatError(f"{place}: {first['msg']}") from error
    try:
        _ = plan.rules
    except ValueError as error:
        raise FormatError(f"reading_rules: {error}; a newer trainfeed made the plan") from error
    if plan.file_list is not None and (plan.inputs or plan.ranges):
        raise FormatError("inputs: expected none beside a list of the files")
    # With a list, the plan is whole when that is read.
    if plan.file_list is None and (line := next(_contradictions(plan), None)) is not None:
        raise FormatError(line)
    return plan


def _fingerprints(inputs: Mapping[str, Planned]) -> dict[str, Any]:
    return {source: planned.fingerprint() for source, planned in inputs.items()}


def has_list(inputs: Mapping[str, Planned]) -> bool:
    """Return whether a plan of these inputs has a list: they are many files, and of no table.

    A list has no column for the snapshots of a table, which stay in the plan.
    """
    if len(inputs) <= LISTED_ABOVE:
        return False
    return all(
        isinstance(planned, PlannedFile) and planned.snapshot is None for planned in inputs.values()
    )


def listed(plan: Plan) -> Plan:
    """Return the plan with a list of its files, if it has more than ``LISTED_ABOVE``.

    The fingerprint stays what it is: it does not depend on where the files are told.
    """
    if not has_list(plan.inputs):
        return plan
    values = {key: each for key, each in plan.fingerprint_of.items() if key != "inputs"}
    files = list_of_plan(plan.inputs, plan.ranges)
    return plan.model_copy(update={"fingerprint_of": values, **_of_list(files)})


def _of_list(files: FileList) -> dict[str, Any]:
    """Return the fields of a plan that its list has."""
    kept = KeptList.of(files)
    return {
        "inputs": Listed(kept, FACTS, _listed_file),
        "ranges": ListedPieces(files, _listed_range),
        "file_list": files.place,
    }


def _listed_file(facts: dict[str, Any]) -> PlannedFile:
    return PlannedFile.model_validate({"start": 0, **facts})


def _listed_range(source: str, start: int, end: int) -> PlannedRange:
    return PlannedRange.model_construct(source=source, start=start, end=end)


def _contradictions(plan: Plan) -> Iterator[str]:
    """Yield one line for each part of a plan that does not agree with the rest."""
    values = plan.fingerprint_of
    documents, uploads = values.get("documents", {}), values.get("uploads", [])
    pairs: dict[str, tuple[Any, Any]] = {
        "plan_id": (plan_id_of(plan.fingerprint, plan.generation), plan.plan_id),
        "format": (values["format"], plan.format),
        "dataset": (values["dataset"], plan.dataset),
        "interval": (values["interval"] | {"name": plan.interval_name}, plan.interval),
        "code": (values["code"], plan.code["digest"]),
        "lookups": (values["lookups"], plan.lookups),
        "documents": (documents, plan.documents),
        "schema": (values["spec"]["schema"], plan.fields),
        "uploads": (uploads, [[upload.kind, upload.sha256] for upload in plan.uploads]),
    }
    if plan.file_list is None:
        pairs["fingerprint"] = canonical_json.sha256_of(values), plan.fingerprint
        pairs["sources"] = sorted(values["inputs"], key=str.encode), plan.sources
    for name, (wanted, found) in pairs.items():
        if wanted != found:
            yield f"{name}: expected {wanted!r}, as the rest of the plan has it, got {found!r}"
    # 2024-03-01, 2024-03-01T05 or 2024-03-01T0510, by the schedule.
    if not plan.interval["start"].replace(":", "").startswith(plan.interval_name):
        yield f"interval: expected the name of {plan.interval['start']}, got {plan.interval_name}"
    if plan.file_list is None:
        yield from _told_otherwise(plan, values["inputs"])
    yield from _cut_wrongly(plan)
    for gap in plan.gaps:
        read = plan.inputs.get(gap["source"])  # a file may be gone
        if read is not None and max(gap["start"], read.start) < min(gap["end"], read.end):
            yield f"gaps: expected what is not read, got {gap!r}, which meets {read!r}"
    ranges: Any = list(range(len(plan.ranges)))
    shards: Any = [_key_of(shard) for shard in plan.all_shards()]
    tasks: dict[str, tuple[Any, Any]] = {
        "ingest": (chain(*plan.ingest), ranges),
        "preprocess": (chain(*plan.preprocess), ranges),
        "convert": (map(_key_of, chain(*plan.convert)), shards),
    }
    for name, (given, wanted) in tasks.items():
        if sorted(given) != wanted:
            yield f"{name}: expected every range or shard in one task, and no other"


def _told_otherwise(plan: Plan, values: Mapping[str, Any]) -> Iterator[str]:
    for source, planned in plan.inputs.items():
        if (wanted := values[source]) != (found := planned.fingerprint()):
            yield f"inputs of {source}: expected {wanted!r}, as in fingerprint_of, got {found!r}"


def _cut_wrongly(plan: Plan) -> Iterator[str]:
    """Yield where the ranges are not each input from its start to its end, in order of sources."""
    if isinstance(plan.ranges, ListedPieces):
        cut = (source for source in plan.ranges.cut() if not plan.inputs[source].is_cut)
        for source in chain(plan.ranges.wrong(), cut):
            yield f"ranges: expected those of {source} from its first byte to its end"
        return
    pieces = iter(plan.ranges)
    for source in plan.sources:
        planned = plan.inputs[source]
        position = planned.start
        if planned.unit == "bytes" and position != 0:
            yield f"inputs of {source}: expected a file from its first byte, got {position}"
        while position < planned.end:
            piece = next(pieces, None)
            # What cannot be cut is one range.
            ends = range(position + 1, planned.end + 1) if planned.is_cut else (planned.end,)
            if piece is None or (piece.source, piece.start) != (source, position):
                yield f"ranges: expected one of {source} that starts at {position}, got {piece!r}"
                return
            if piece.end not in ends:
                yield f"ranges: expected an end in {source} up to {planned.end}, got {piece!r}"
                return
            position = piece.end
        if position != planned.end:
            yield f"inputs of {source}: expected an end from {planned.start} on, got {planned.end}"
    if (piece := next(pieces, None)) is not None:
        yield f"ranges: expected no further range, got {piece!r}"


def _key_of(shard: PlannedShard) -> tuple[str, int]:
    return shard.split, shard.index


PLANS: Final = RecordFile(
    Plan,
    "a plan",
    "nothing was changed; build the interval again (in Airflow: clear the run from plan on), which"
    " writes the file again",
    mode=0o644,
    max_bytes=canonical_json.MAX_BYTES,
    place=ONCE_UNSEALED["plan"],
    follow=True,
    to_json=Plan.to_json,
    from_json=_from_json,
)


def _read(folder: DatasetFolder, interval: str, plan_id: str) -> Plan | None:
    path = folder.plan(interval, plan_id)
    plan = PLANS.read(path, dataset=folder.name, interval_name=interval, plan_id=plan_id)
    return plan if plan is None or plan.file_list is None else _with_list(folder, plan, path)


def _with_list(folder: DatasetFolder, plan: Plan, path: Path) -> Plan:
    place = cast("ListedFiles", plan.file_list)
    files = kept_list(folder.file_list(place.sha256), place)
    plan = plan.model_copy(update=_of_list(files))
    if (line := next(_contradictions(plan), None)) is not None:
        raise FormatError(
            f"expected a plan that agrees with the list of its files: {line}; {PLANS.remedy}",
            path=str(path),
        )
    return plan


def load_plan(folder: DatasetFolder, ref: PlanRef) -> Plan:
    """Read the plan that ``ref`` names.

    Raises:
        NotFoundError: The plan is gone; the run has to be started again.
        FormatError: The file is damaged, is the plan of another path, contradicts itself, or is of
            another version of trainfeed.
        StorageError: The publication root refused or failed.
    """
    plan = _read(folder, ref.interval, ref.plan_id)
    if plan is None:
        raise NotFoundError(
            f"plan {folder.plan(ref.interval, ref.plan_id)} is missing; nothing was changed; run"
            " the build again"
        )
    return plan


def plan_of_version(folder: DatasetFolder, interval: str, plan_id: str) -> Plan | None:
    """Return the plan of a published version; None, with a line in the log, without a usable one.

    A version does not need its plan any more, so a damaged one is as good as a removed one.

    Raises:
        StorageError: The publication root refused or failed.
    """
    try:
        return _read(folder, interval, plan_id)
    except FormatError as error:
        logger.warning("the plan of a published version counts as removed: %s", error)
        return None


def earlier_plans(folder: DatasetFolder, interval: str) -> list[Plan]:
    """Return the plans of an interval that earlier runs have written, in order of their names.

    A plan that cannot be read, perhaps written by a newer version of trainfeed, is left out with a
    warning in the log.

    Raises:
        StorageError: The publication root refused or failed.
    """
    plans = []
    for plan_id in folder.plan_ids(interval):
        try:
            plans.append(_read(folder, interval, plan_id))
        except FormatError as error:
            path = folder.plan(interval, plan_id)
            logger.warning("what %s saw is not compared with what is there: %s", path, error)
    return [plan for plan in plans if plan is not None]


# --- Writes the plan file, or adopts the plan that another run wrote for the same generation

# The fields that follow from how the inputs are cut into pieces.
_CUT: Final = ("ranges", "file_list", "ingest", "preprocess", "convert")


def save_plan(folder: DatasetFolder, plan: Plan, *, joins: bool = False) -> Plan:
    """Write the plan file, or adopt the plan that already has the name.

    A plan of the same name has the same fingerprint, hence the same inputs, code and specification.
    If it differs in anything else (library versions, gates), an unfinished run of another
    deployment wrote it, and the new plan replaces it. The tasks of the other run notice that and
    fail with CodeChangedError. A plan that differs in its references alone is adopted, as long as
    they can be opened: between the two runs, earlier intervals were published or built again. Who
    made a plan alone makes no difference either. A damaged file is replaced.

    Args:
        folder: The data set below the publication root.
        plan: The plan.
        joins: Whether a plan is adopted, too, that differs in the reason of its rebuild alone: two
            runs that build the same generation for different reasons so end with one of them. The
            pieces of a replay, whose landing files are there, are adopted with it.

    Returns:
        The plan that every stage will read.

    Raises:
        StorageError: The publication root refused or failed. No plan was changed.
    """
    path = folder.plan(plan.interval_name, plan.plan_id)
    if isinstance(plan.inputs, Listed):
        files = plan.inputs.files
        keep_list(folder.file_list(files.place.sha256), files)
        faults.point("plan.after_list")
    if not PLANS.write_once(path, plan) and not _is_same(folder, plan, joins=joins):
        PLANS.replace(path, plan)
    return load_plan(folder, plan.ref())


def _is_same(folder: DatasetFolder, plan: Plan, *, joins: bool) -> bool:
    """Whether the plan file has the content of ``plan``, but for references that are usable.

    With ``joins``, the reason of the rebuild may be another one, too, and the cut of a replay.
    """
    try:
        found = load_plan(folder, plan.ref())
    except FormatError as error:
        logger.warning("a plan that is not published is written again: %s", error)
        return False
    except NotFoundError:
        return False  # removed since
    if found.to_bytes() == plan.to_bytes():
        return True
    others = ["references", "made_by"]
    if joins:
        others += ["rebuild", "supersedes", *(_CUT if found.made_by == "replay" else ())]
    update = {name: getattr(plan, name) for name in others}
    alike = found.model_copy(update=update).to_bytes() == plan.to_bytes()
    reads = read_statistics(found.quality)
    return alike and all(each.is_usable(folder, statistics=reads) for each in found.references)
