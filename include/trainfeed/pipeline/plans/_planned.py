"""The parts of a plan: inputs, ranges and shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    model_serializer,
)

from trainfeed import canonical_json
from trainfeed.dataset import Manifest
from trainfeed.sources import landing_folder

__all__ = [
    "PlanPart",
    "Planned",
    "PlannedFile",
    "PlannedInput",
    "PlannedRange",
    "PlannedShard",
    "PlannedUpload",
    "Unit",
    "first_few",
    "planned_of",
    "replaced_inputs",
    "unit_of_input",
]

# Lines of a list in a message; further ones are only counted.
_SHOWN_LINES: Final = 10
_LOGS: Final = "logs"
_KIND: Final = r"^[a-z][a-z0-9_]{0,31}$"

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
    def _without_no_kind(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave ``kind`` out where it is None: the key was added after the format."""
        value: dict[str, Any] = handler(self)
        if self.kind is None:
            del value["kind"]
        return value


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


class PlannedFile(_Counted):
    """One file with its identity: positions are bytes of the stored, perhaps compressed, file.

    Attributes:
        path: Path of the file below the location of the connection.
        compression: none, gzip or zstd.
        timestamp_ms: Timestamp of every record of the file: the start of the interval.
        start: 0.
        end: Length of the file.
        modified_ms: Modification time, milliseconds since 1970, by the clock of the store.
        file_id: Number of the file in the store, or None if the protocol does not give it.
        checksum: Checksum by the store, or None if the protocol does not give it.
    """

    connection: str
    path: str
    compression: str
    timestamp_ms: int
    modified_ms: int
    file_id: int | None
    checksum: str | None

    unit: ClassVar[Unit] = "bytes"

    @property
    def label(self) -> str:
        """The name under which late records are counted."""
        return self.kind or _LOGS

    @property
    def is_cut(self) -> bool:
        """Whether the file can be read in pieces; compressed data is read from its start only."""
        return self.compression == "none"

    @property
    def landing_folder(self) -> str:
        """Folder of its landing files: a digest of all fields, so only equal plans share it."""
        return f"_{self.label}/{canonical_json.sha256_of(self.model_dump())[:32]}"

    def fingerprint(self) -> Any:
        """The part of the input that determines the content of a version."""
        if self.checksum is None:
            return {"length": self.end}
        return {"length": self.end, "checksum": self.checksum}

    def changes(self, old: Mapping[str, Any]) -> list[str]:
        """Return the differences from an earlier state, in the facts that both sides have."""
        return [
            f"{what} {old[name]} → {value}"
            for name, what in _FILE_IDENTITY.items()
            if None not in {old[name], value := getattr(self, name)} and old[name] != value
        ]

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
