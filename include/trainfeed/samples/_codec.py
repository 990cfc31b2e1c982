"""The codec of a schema: samples, records, columns."""

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
    """Encodes and decodes the samples of one schema; threads may share it.

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
            sample: Field to value: an array, a number, nested lists of numbers, bytes or str. An
                optional field may be None or missing.

        Raises:
            SampleShapeError: A field is missing or unknown, has another shape or type, or a number
                would not survive: an integer that does not fit, a float that is not whole given
                for an integer, a boolean given for a number, a finite float that becomes infinite.
        """
        return self._encoder.encode(sample)

    def decode(self, record: bytes | memoryview) -> dict[str, Value]:
        """Return the sample of a record, in memory of its own.

        Returns:
            Field to array of the field's shape, ``()`` for a number; bytes, str, or None for an
            optional field that is absent.

        Raises:
            FormatError: The record is none of this schema.
        """
        return self._decoder.decode(record)

    def encode_columns(self, columns: Mapping[str, NDArray[Any]]) -> NDArray[np.void]:
        """Return the records of many samples, for schemas of fixed size.

        Args:
            columns: Field to array of shape ``(n, *field.shape)``. An optional field may be
                missing, or a masked array, in which whole rows are masked.

        Returns:
            Shape ``(n,)``, dtype ``schema.record_dtype``; the bytes of an item are what ``encode``
            gives for that sample.

        Raises:
            SampleShapeError: As for ``encode``, or the columns differ in length.
        """
        return records_of_columns(self.schema, columns)

    def decode_records(self, framing: memoryview, num_records: int) -> dict[str, NDArray[Any]]:
        """Return the fields of all records of a chunk, for schemas of fixed size.

        Args:
            framing: Records with their lengths, as chunks hold them.
            num_records: As the chunk's header has it.

        Returns:
            Per field an array of shape ``(num_records, *field.shape)``, in memory of its own. That
            of an optional field is a masked array; where it is masked, the data are zeros.

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
            num_records: As the chunk's header has it.
            copy: False leaves values of bytes in ``framing``, as memoryviews.

        Returns:
            Per field of fixed size what ``decode_records`` gives. A field of variable size is an
            array of objects, shape ``(num_records,)``: arrays, bytes or str, None where absent. All
            in memory of their own, but for ``copy``.

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
            num_records: As the chunk's header has it.

        Returns:
            Shape ``(num_records,)``, dtype ``schema.record_dtype``; a view into ``framing``, valid
            as long as that is. Lengths and booleans were verified.

        Raises:
            FormatError: The framing does not hold ``num_records`` records of this schema.
        """
        return self._decoder.view_records(framing, num_records)

    def columns_of(self, records: NDArray[np.void]) -> dict[str, NDArray[Any]]:
        """Return fields of records that ``view_records`` gave, or a slice of them.

        Args:
            records: Shape ``(n,)``.

        Returns:
            Per field a contiguous array of shape ``(n, *field.shape)``, in memory of its own. That
            of an optional field is a masked array; where it is masked, the data are zeros.

        Raises:
            FormatError: A presence bit is set that belongs to no field.
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
        """Cut records into batches, for less than ``columns_of`` takes for each.

        Args:
            records: As ``view_records`` gave them, shape ``(n,)``.
            num_samples: Samples of a batch; divides those of a block of ``memory``, unless that
                holds all of ``records``.
            memory: Where the columns are put; what nobody looks at any more is used again.
            num_missing: Samples of the first batch where that is a smaller one; 0 where it is not.

        Yields:
            What ``columns_of`` gives for ``num_samples`` records, fewer at the end, and how many.

        Raises:
            FormatError: A presence bit is set that belongs to no field.
        """
        return self._decoder.iter_batches(records, num_samples, memory, num_missing=num_missing)
