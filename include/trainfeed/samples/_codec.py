"""The codec of a schema: samples or columns to records, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainfeed.samples._column_memory import ColumnMemory
from trainfeed.samples._decoder import SampleDecoder, Value
from trainfeed.samples._encoder import SampleEncoder
from trainfeed.samples._record_columns import records_of_columns
from trainfeed.samples._record_layout import RecordLayout
from trainfeed.samples._schema import Schema
from trainfeed.samples._variable import VariableDecoder

__all__ = ["TypedCodec"]


class TypedCodec:
    """Encodes and decodes the samples of one schema; threads may share the object.

    Args:
        schema: The schema.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._encoder = SampleEncoder(schema)
        layout = RecordLayout(schema)
        self._decoder = SampleDecoder(schema, layout)
        self._variable = None if schema.is_fixed else VariableDecoder(schema, layout)

    def encode(self, sample: Mapping[str, Any]) -> bytes:
        """Return the record of a sample.

        Args:
            sample: Mapping from field to value: an array, a number, nested lists of numbers, bytes
                or str. An optional field may be None or missing.

        Raises:
            SampleShapeError: A field is missing or unknown, has another shape or type, or a number
                cannot be stored: an integer out of range, a fraction or a boolean in place of an
                integer, a finite float that becomes infinite.
        """
        return self._encoder.encode(sample)

    def decode(self, record: bytes | memoryview) -> dict[str, Value]:
        """Return the sample of a record, in memory of its own.

        Returns:
            Mapping from field to an array of the field's shape, ``()`` for a number; to bytes or
            str; or to None for an absent optional field.

        Raises:
            FormatError: The record does not match the schema.
        """
        return self._decoder.decode(record)

    def encode_columns(self, columns: Mapping[str, NDArray[Any]]) -> NDArray[np.void]:
        """Return the records of many samples, for schemas of fixed size.

        Args:
            columns: Mapping from field to an array of shape ``(n, *field.shape)``. An optional
                field may be missing, or a masked array in which whole rows are masked.

        Returns:
            Shape ``(n,)``, dtype ``schema.record_dtype``; the bytes of an item equal the result of
            ``encode`` for that sample.

        Raises:
            SampleShapeError: See ``encode``; or the columns differ in length.
        """
        return records_of_columns(self.schema, columns)

    def decode_records(self, framing: memoryview, num_records: int) -> dict[str, NDArray[Any]]:
        """Return the fields of all records of a chunk, for schemas of fixed size.

        Args:
            framing: Records with their lengths, as chunks hold them.
            num_records: Number of records in the chunk's header.

        Returns:
            Per field an array of shape ``(num_records, *field.shape)``, in memory of its own; for
            an optional field a masked array, whose data are zeros where it is masked.

        Raises:
            FormatError: The framing does not hold ``num_records`` records of this schema.
        """
        return self._decoder.decode_records(framing, num_records)

    def decode_columns(
        self, framing: memoryview, num_records: int, *, copy: bool = True
    ) -> dict[str, NDArray[Any]]:
        """Return the fields of all records of a chunk, for any schema.

        Args:
            framing: Records with their lengths, as chunks hold them.
            num_records: Number of records in the chunk's header.
            copy: False gives values of bytes as memoryviews of ``framing``.

        Returns:
            Fields of fixed size as in ``decode_records``. A field of variable size is an object
            array of shape ``(num_records,)`` of arrays, bytes or str, None where absent. Without
            ``copy=False`` all values have memory of their own.

        Raises:
            FormatError: The framing does not hold ``num_records`` records of this schema.
        """
        if self._variable is None:
            return self._decoder.decode_records(framing, num_records)
        return self._variable.columns(framing, num_records, copy=copy)

    def view_records(self, framing: memoryview, num_records: int) -> NDArray[np.void]:
        """Return all records of a chunk without copying them, for schemas of fixed size.

        Args:
            framing: Records with their lengths, as chunks hold them.
            num_records: Number of records in the chunk's header.

        Returns:
            Shape ``(num_records,)``, dtype ``schema.record_dtype``; a view into ``framing``, valid
            as long as that is. Lengths and booleans were verified.

        Raises:
            FormatError: The framing does not hold ``num_records`` records of this schema.
        """
        return self._decoder.view_records(framing, num_records)

    def columns_of(self, records: NDArray[np.void]) -> dict[str, NDArray[Any]]:
        """Return the fields of records from ``view_records``, or of a slice of them.

        Args:
            records: Shape ``(n,)``.

        Returns:
            Per field a contiguous array of shape ``(n, *field.shape)``, in memory of its own; for
            an optional field a masked array, whose data are zeros where it is masked.

        Raises:
            FormatError: A presence bit is set beyond those of the optional fields.
        """
        return self._decoder.columns_of(records)

    def iter_batches(
        self,
        records: NDArray[np.void],
        num_samples: int,
        memory: ColumnMemory,
        *,
        num_missing: int = 0,
    ) -> Iterator[tuple[dict[str, NDArray[Any]], int]]:
        """Cut records into batches; faster than a call of ``columns_of`` for each batch.

        Args:
            records: Records from ``view_records``, shape ``(n,)``.
            num_samples: Samples of a batch. A block of ``memory`` must hold a multiple of it, or
                all of ``records``.
            memory: Memory for the columns; blocks are used again when no array refers to them.
            num_missing: Samples of the first batch if it is smaller than the others; otherwise 0.

        Yields:
            Columns as in ``columns_of`` for ``num_samples`` records, fewer at the end, and their
            number.

        Raises:
            FormatError: A presence bit is set beyond those of the optional fields.
        """
        return self._decoder.iter_batches(records, num_samples, memory, num_missing=num_missing)
