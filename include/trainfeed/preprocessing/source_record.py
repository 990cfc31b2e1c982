"""Record mode: the argument of a function, fast access to its JSON, and turning it down."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import unquote

from trainfeed.core.reading_rules import ReadingRules

# --- Parses JSON with the results of ``json.loads``, several times as fast


def loads(text: bytes) -> Any:
    """Return the value that ``json.loads`` returns.

    Raises:
        ValueError: ``text`` is no JSON.
        RecursionError: The value is nested too deeply.
    """
    try:
        return _decoder()(text)
    except (ValueError, RecursionError):
        return json.loads(text)


@cache
def _decoder() -> Callable[[bytes], Any]:
    # Made at the first use: a module that only imports names of types does not pay for it.
    import msgspec

    return msgspec.json.Decoder().decode


def whole_between(low: int, high: int) -> Any:
    """Return the type of whole numbers from ``low`` to ``high``, for ``field_reader``."""
    import msgspec

    return Annotated[int, msgspec.Meta(ge=low, le=high)]


def field_reader(
    fields: Mapping[str, Any], attributes: Iterable[str] | None = None
) -> Callable[[bytes], Any]:
    """Return a function that reads some fields of JSON objects.

    Args:
        fields: Name → ``int``, ``float``, ``bool``, ``str`` or ``whole_between``, or one of them
            ``| None``; every field is required.
        attributes: Names of the attributes for the fields, in order; by default the same names.

    Returns:
        A function from bytes to an object with the fields as attributes. The function raises
        ValueError or RecursionError for bytes that are no such object, and for some unusual ones
        that are. It does not check the encoding of other fields, nor the length of their numbers.

    Raises:
        ValueError: An attribute's name is not valid in Python.
    """
    import msgspec

    names = dict(zip(attributes or fields, fields, strict=True))
    kinds = [(attribute, fields[name]) for attribute, name in names.items()]
    kind = msgspec.defstruct("Fields", kinds, rename=names, gc=False)
    return msgspec.json.Decoder(kind).decode


# --- The argument of a preprocessing function, and the two ways to turn a record down

_REASON: Final = re.compile(r"[a-z0-9][a-z0-9_.:-]{0,63}")
_MAX_MESSAGE_CHARS: Final = 500
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
# What Kafka gives for a record without a timestamp.
_NO_STAMP: Final = -1
# The last column of a batch whose records have typed fields.
FIELDS: Final = "fields"


def check_reason(reason: str) -> str:
    """Return ``reason`` if it is a short code.

    Raises:
        ValueError: ``reason`` is no short code.
    """
    if not _REASON.fullmatch(reason):
        raise ValueError(f"expected a reason like 'not_json', got {reason!r}")
    return reason


def cut_message(text: str) -> str:
    """Return at most 500 characters of ``text``, without those that UTF-8 cannot encode."""
    # Text from a broken record may have lone surrogates.
    return text[:_MAX_MESSAGE_CHARS].encode("utf-8", "replace").decode()


class Reject(Exception):  # noqa: N818 - users raise it as a verdict, it reports no failure
    """Raised by a preprocessing function: the record is broken and goes to quarantine.

    Args:
        reason: A short code like ``not_json``; the quarantine is counted by it.
        message: The exact error; cut to 500 characters.
    """

    def __init__(self, reason: str, message: str = "") -> None:
        super().__init__(reason, message)
        self.reason = check_reason(reason)
        self.message = cut_message(str(message))


@dataclass(frozen=True)
class Filtered:
    """Returned by a preprocessing function: the record is good, but must give no sample.

    Attributes:
        reason: A short code like ``cancelled``; filtered records are counted by it.
    """

    reason: str

    def __post_init__(self) -> None:
        check_reason(self.reason)


class Record(NamedTuple):
    """One source record.

    Attributes:
        value: The bytes of the record, or None for a Kafka tombstone and for a row of a file of
            columns.
        key: The Kafka key, or None.
        timestamp_ms: The record's timestamp in milliseconds since 1970, UTC; -1 without one.
        headers: Kafka headers in order.
        source: Canonical source string, ``kafka:<topic>/<partition>``; of a member of a union
            behind its name, ``<member>/kafka:<topic>/<partition>``, see ``source_member``.
        offset: Offset within the source.
    """

    value: bytes | None
    key: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...]
    source: str
    offset: int

    @property
    def timestamp(self) -> datetime:
        """The record's timestamp as aware UTC time, exact to the millisecond.

        Raises:
            Reject: The record has no timestamp (``no_timestamp``), or one that is no time in
                milliseconds (``bad_timestamp``), such as one in microseconds.
        """
        if self.timestamp_ms == _NO_STAMP:
            raise Reject("no_timestamp")
        try:
            return _EPOCH + timedelta(milliseconds=self.timestamp_ms)
        except OverflowError as error:
            message = f"{self.timestamp_ms} milliseconds since 1970 are beyond the year 9999"
            raise Reject("bad_timestamp", message) from error

    def json(self) -> Any:
        """Return the value parsed as JSON, with the results of ``json.loads``.

        Raises:
            Reject: The value is null (``null_value``) or no JSON (``not_json``).
        """
        if self.value is None:
            raise Reject("null_value")
        try:
            return loads(self.value)
        except (ValueError, RecursionError) as error:
            raise Reject("not_json", str(error)) from error

    @property
    def fields(self) -> Mapping[str, Any]:
        """The fields of the record: name → value, whatever kind of source it is of.

        They are those of the source, such as the columns of a Parquet file; where it has none,
        those of the JSON object in the value, which is parsed at every access.

        Raises:
            Reject: The value is null (``null_value``), no JSON (``not_json``), or JSON that is no
                object (``not_an_object``).
        """
        value = self.json()
        if not isinstance(value, Mapping):
            raise Reject("not_an_object", f"expected an object, got {type(value).__name__}")
        return value


class TypedRecord(Record):
    """A record of a source with typed fields; ``json`` gives them, too."""

    _typed: dict[str, Any] | None

    @classmethod
    def of(cls, parts: tuple[Any, ...], fields: dict[str, Any] | None) -> TypedRecord:
        """Return a record.

        Args:
            parts: The attributes of ``Record``, in their order.
            fields: Name → value; None for a record without a value.
        """
        record = tuple.__new__(cls, parts)
        record._typed = fields  # noqa: SLF001 - the class itself
        return record

    @property
    def is_there(self) -> bool:
        """Whether the record has a value."""
        return self._typed is not None

    def json(self) -> Any:
        """Return the fields.

        Raises:
            Reject: The record has no value (``null_value``).
        """
        if self._typed is None:
            raise Reject("null_value")
        return self._typed

    def _replace(self, **changes: Any) -> TypedRecord:
        return TypedRecord.of(super()._replace(**changes), self._typed)


class _GuessedTime(Record):
    """A record by the first reading rules: without a timestamp it is of the last one of 1969."""

    __slots__ = ()

    @property
    def timestamp(self) -> datetime:
        """The record's timestamp as aware UTC time."""
        return datetime.fromtimestamp(self.timestamp_ms / 1000, UTC)


def source_member(source: str) -> str | None:
    """Return the name of the member of a union that a record is of; None for other sources.

    Args:
        source: The ``source`` of a record, such as ``eu/kafka:clicks/0``.
    """
    head, _, rest = source.partition("/")
    return None if not rest or ":" in head else head


def partition_values(source: str) -> dict[str, str | None]:
    """Return the values in the folders of a source whose names are ``key=value``, as Hive's are.

    Args:
        source: The ``source`` of a record, such as ``logs:dt=2026-02-01/region=eu/part-0.gz``.

    Returns:
        Key → value, in the order of the folders: ``{"dt": "2026-02-01", "region": "eu"}``. Bytes
        that Hive writes as ``%2F`` are themselves; its name for no value is None.
    """
    folders = source.partition(":")[2].split("/")[:-1]
    pairs = [folder.partition("=") for folder in folders if "=" in folder]
    return {unquote(key): None if value == _NO_VALUE else unquote(value) for key, _, value in pairs}


def record_type(rules: ReadingRules) -> type[Record]:
    """Return the type of the records that a function gets by some reading rules."""
    return _GuessedTime if rules is ReadingRules.GUESSED else Record


# --- Fast access to fields of usual records, for functions in record mode

# In a value of at most so many bytes, no number has more digits than Python accepts.
_MAX_BYTES: Final = 4300


def whole(low: int, high: int, *, nullable: bool = False) -> Any:
    """Return the type of whole numbers from ``low`` to ``high``, both within 64 bits, signed."""
    return _nullable(whole_between(low, high), nullable=nullable)


def number(*, nullable: bool = False) -> Any:
    """Return the type of numbers; they are read as floats."""
    return _nullable(float, nullable=nullable)


def text(*, nullable: bool = False) -> Any:
    """Return the type of text."""
    return _nullable(str, nullable=nullable)


def plain_reader(fields: Mapping[str, Any]) -> Callable[[Record], Any]:
    """Return a function that reads fields of records.

    Args:
        fields: Name → ``whole``, ``number`` or ``text``; names must be valid as attributes.

    Returns:
        A function from a record to an object with the fields as attributes, which have the values
        of ``json.loads``; the object is true. The function returns None for a record that is no
        JSON object, lacks a field or has one of another type, and perhaps for other unusual
        records: use ``Record.json`` for those.
    """
    read_fields = field_reader(fields)

    def read(record: Record) -> Any:
        value = record.value
        if value is None or len(value) > _MAX_BYTES:
            return None
        try:
            if not value.isascii():
                value.decode()
            return read_fields(value)
        except (ValueError, RecursionError):
            return None

    return read


def _nullable(kind: Any, *, nullable: bool) -> Any:
    return kind | None if nullable else kind
