"""Values as Confluent's serializers write them: a zero byte, the id of a schema, and a datum.

The schema is that of the writer. Its id, 4 bytes big-endian, is one of a schema registry. What
stands behind it depends on the format; a ``DatumReader`` reads it, all values of one id at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trainfeed.value_formats.datums import Cursor, Datums, Positions, spread

# Why a value is quarantined: the codes stand in published versions, and never change.
NO_SCHEMA_ID: Final = "no_schema_id"
UNKNOWN_SCHEMA: Final = "unknown_schema"
INCOMPATIBLE_SCHEMA: Final = "incompatible_schema"
BAD_DATUM: Final = "bad_datum"

_HEAD_BYTES: Final = 5
_ID_BITS: Final = np.uint64(0xFFFFFFFF)
# In the place of an id: a value without one, and no value at all.
_NONE: Final = -1
_NULL: Final = -2


class SchemaError(ValueError):
    """A schema is not valid, is not supported, or does not fit the other one.

    Its callers say what that means for records.
    """


@dataclass(frozen=True)
class WriterSchema:
    """A schema by which values were written, as a registry has it.

    Attributes:
        kind: AVRO, PROTOBUF or JSON, as registries name the formats.
        text: The schema.
        references: Name → text of the schemas that it uses, each after those that it uses itself.
    """

    kind: str
    text: str
    references: Mapping[str, str]


class Refusal(NamedTuple):
    """A value that is no record of its schema: its row, the code of the reason, and a message."""

    row: int
    reason: str
    message: str


class DecodedValues(NamedTuple):
    """The values of a batch.

    Attributes:
        column: A value for each row; null for a null value, and for one that is refused.
        refused: The refused ones, by ascending row.
    """

    column: pa.Array
    refused: Sequence[Refusal]


class DatumReader(Protocol):
    """Reads datums of one writer's schema as columns of the reader's schema."""

    def read(self, cursor: Cursor) -> pa.Array:
        """Return a value for each datum; refuse the wrong ones in the cursor."""


class ValueFormat(Protocol):
    """A format of values, with the reader's schema."""

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of a value."""

    def datum_reader(self, writer: WriterSchema) -> DatumReader:
        """Return what reads the datums of a writer.

        Raises:
            SchemaError: The writer's schema is not valid, or does not fit the reader's.
        """


class FramedValues:
    """Reads framed values.

    Args:
        form: The format, with the reader's schema.
        writers: Id → writer's schema, of all ids that the registry knows.
    """

    def __init__(self, form: ValueFormat, writers: Mapping[int, WriterSchema]) -> None:
        self._form = form
        self._readers: dict[int, DatumReader | str] = {}
        self._writers = writers

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of a value."""
        return self._form.type

    def read(self, values: pa.Array) -> DecodedValues:
        """Read the values of a batch.

        Args:
            values: Binary array, with nulls for records without a value.
        """
        datums, ids, start, end = _heads(values)
        parts: list[tuple[Positions | None, pa.Array]] = []
        refused: list[Refusal] = []
        for number in np.unique(ids).tolist():
            rows = np.flatnonzero(ids == number)
            if number == _NULL:
                continue
            reader = self._reader(number)
            if isinstance(reader, Refusal):
                refused += [reader._replace(row=row) for row in rows.tolist()]
                continue
            datums.messages[1:] = []
            cursor = Cursor(datums, start[rows] + _HEAD_BYTES, end[rows])
            column = reader.read(cursor)
            wrong = np.flatnonzero(cursor.why)
            if len(wrong):
                refused += [
                    Refusal(int(rows[each]), BAD_DATUM, datums.messages[cursor.why[each]])
                    for each in wrong
                ]
                good = np.flatnonzero(cursor.why == 0)
                rows, column = rows[good], column.take(pa.array(good))
            parts.append((None if len(rows) == len(ids) else rows, column))
        refused.sort()
        return DecodedValues(spread(parts, len(ids), self.type), refused)

    def _reader(self, number: int) -> DatumReader | Refusal:
        if number == _NONE:
            return Refusal(
                0, NO_SCHEMA_ID, "expected a zero byte and the id of a schema at the beginning"
            )
        if number not in self._writers:
            return Refusal(0, UNKNOWN_SCHEMA, f"the registry has no schema {number}")
        if number not in self._readers:
            try:
                self._readers[number] = self._form.datum_reader(self._writers[number])
            except SchemaError as error:
                self._readers[number] = f"schema {number} of the writer: {error}"
        found = self._readers[number]
        return Refusal(0, INCOMPATIBLE_SCHEMA, found) if isinstance(found, str) else found


def schema_ids(values: pa.Array) -> set[int]:
    """Return the ids of the schemas by which values were written."""
    _, ids, _, _ = _heads(values)
    return {number for number in np.unique(ids).tolist() if number >= 0}


def datums_of(values: pa.Array) -> tuple[Datums, Positions, Positions]:
    """Return the bytes of a batch of values, and begin and end of each."""
    if values.type != pa.binary():
        values = values.cast(pa.binary())
    _, offsets, data = values.buffers()
    if offsets is None or not len(values):
        nothing = np.empty(0, np.int64)
        return Datums.of(None), nothing, nothing
    ends = np.frombuffer(offsets, np.int32, len(values) + 1, values.offset * 4).astype(np.int64)
    # Only the bytes of these rows: a batch may be a slice of a much larger one.
    first, last = int(ends[0]), int(ends[-1])
    datums = Datums.of(None if data is None else memoryview(data)[first:last])
    return datums, ends[:-1] - first, ends[1:] - first


def _heads(values: pa.Array) -> tuple[Datums, NDArray[np.int64], Positions, Positions]:
    """Return the bytes of a batch, and id, begin and end of every value."""
    datums, start, end = datums_of(values)
    if not len(values):
        return datums, start, start, end
    framed = (end - start >= _HEAD_BYTES) & (datums.data[start] == 0)
    words = datums.longs[start]
    ids = ((words >> np.uint64(8)) & _ID_BITS).astype(np.uint32).byteswap().astype(np.int64)
    ids = np.where(framed, ids, _NONE)
    if values.null_count:
        ids[values.is_null().to_numpy(zero_copy_only=False)] = _NULL
    return datums, ids, start, end
