"""What a plan says of inputs, ranges and shards."""

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

from trainfeed.dataset import Manifest, canonical
from trainfeed.sources import landing_folder

__all__ = [
    "PlanPart",
    "Planned",
    "PlannedFile",
    "PlannedInput",
    "PlannedRange",
    "PlannedShard",
    "Unit",
    "first_few",
    "planned_of",
    "replaced_inputs",
    "unit_of_input",
]

# Lines of a message: more are not read.
_SHOWN_LINES: Final = 10
_LOGS: Final = "logs"
_KIND: Final = r"^[a-z][a-z0-9_]{0,31}$"

Unit: TypeAlias = Literal["offsets", "bytes"]


class PlanPart(BaseModel):
    """Frozen, strict and closed."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class _Counted(PlanPart):
    """What is read of one source: a half-open range, and what identifies the source.

    Attributes:
        start: First position.
        end: Position behind the last.
        kind: Which kind of source it is, in one lowercase word, which becomes part of a path; None,
            and not in the file, for the kinds that the other keys tell: topics and log files.
    """

    start: int
    end: int
    kind: Annotated[str, Field(pattern=_KIND)] | None = None

    @model_serializer(mode="wrap")
    def _without_no_kind(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave the key out where it does not apply: it is younger than the format."""
        value: dict[str, Any] = handler(self)
        if self.kind is None:
            del value["kind"]
        return value


class PlannedInput(_Counted):
    """One partition of a topic, or of what is like one: positions are offsets of records."""

    connection: str
    topic: str
    topic_uuid: str
    cluster: str
    partition: int

    unit: ClassVar[Unit] = "offsets"
    is_cut: ClassVar[bool] = True

    @property
    def label(self) -> str:
        """What late records are counted under."""
        return self.topic

    @property
    def landing_folder(self) -> str:
        """Where its records land, below the landing area."""
        folder = landing_folder(self.topic, self.topic_uuid, self.partition)
        return folder if self.kind is None else f"_{self.kind}/{folder}"

    def fingerprint(self) -> Any:
        """What of it determines the content."""
        return [self.start, self.end]

    def replaced(self, old: Mapping[str, Any]) -> str | None:
        """Say how the topic differs from the one that the published version was built from."""
        if (old["topic_uuid"], old["cluster"]) == (self.topic_uuid, self.cluster):
            return None
        return (
            f"{self.topic}: {old['topic_uuid']} in cluster {old['cluster']} → {self.topic_uuid}"
            f" in cluster {self.cluster}"
        )


class PlannedFile(_Counted):
    """One file, and what identifies it: positions are bytes, as they are stored.

    Attributes:
        path: Where it is, below the place of the connection.
        compression: none, gzip or zstd.
        timestamp_ms: What every record of it is stamped with: the start of the interval.
        start: 0.
        end: Its length.
        modified_ms: Milliseconds since 1970, by the store's clock.
        file_id: What the store calls it, where the protocol tells.
        checksum: What the store knows of its content, where the protocol tells.
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
        """What late records are counted under."""
        return self.kind or _LOGS

    @property
    def is_cut(self) -> bool:
        """Whether it may be read in pieces: there is no way into the middle of compressed data."""
        return self.compression == "none"

    @property
    def landing_folder(self) -> str:
        """Where its records land: everything that they depend on, so that equal plans find them."""
        return f"_{self.label}/{canonical.sha256_of(self.model_dump())[:32]}"

    def fingerprint(self) -> Any:
        """What of it determines the content."""
        if self.checksum is None:
            return {"length": self.end}
        return {"length": self.end, "checksum": self.checksum}

    def changes(self, old: Mapping[str, Any]) -> list[str]:
        """Return what differs from another state of it, as far as both sides know."""
        return [
            f"{what} {old[name]} → {value}"
            for name, what in _FILE_IDENTITY.items()
            if None not in {old[name], value := getattr(self, name)} and old[name] != value
        ]

    def replaced(self, old: Mapping[str, Any]) -> str | None:
        """Say how the file differs from the one that the published version was built from."""
        # Length and checksum are equal: its time was set, or the same bytes were put there.
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
    """A piece of an input: one landing file, or what is read of a log file at once.

    ``start`` and ``end`` are offsets of a topic, or bytes of a log file as it is stored. A
    compressed file is one range; the offsets of its records count what comes out of it.
    """

    source: str
    start: int
    end: int


class PlannedShard(PlanPart):
    """One shard to write."""

    split: str
    index: int


def unit_of_input(value: Mapping[str, Any]) -> Unit:
    """Return what an input is counted in, as a manifest of any version has it."""
    return "bytes" if "path" in value else "offsets"


def planned_of(value: Mapping[str, Any]) -> Planned:
    """Return what a manifest or a plan has of an input.

    Raises:
        ValidationError: It is no input of this version.
    """
    return _ANY.validate_python(value)


def first_few(lines: Sequence[str]) -> str:
    """Return lines as part of a message; of very many the first ones, and how many more."""
    more = len(lines) - _SHOWN_LINES
    return "; ".join([*lines[:_SHOWN_LINES], *([f"and {more} more"] if more > 0 else [])])


def replaced_inputs(current: Manifest, inputs: Mapping[str, Planned]) -> list[str]:
    """Return one line per source of the published version that is another one now."""
    lines = {
        line
        for source, planned in inputs.items()
        if (old := current.inputs.get(source)) is not None
        and (line := planned.replaced(old)) is not None
    }
    return sorted(lines)
