"""The codec of a schema: samples, records, columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainfeed.samples._columns import records_of_columns
from trainfeed.samples._decoder import SampleDecoder, Value
from trainfeed.samples._encoder import SampleEncoder
from trainfeed.samples._schema import Schema

__all__ = ["TypedCodec"]


class TypedCodec:
    """Encodes and decodes the samples of one schema; threads may share it.

    Args:
        schema: The schema.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._encoder = SampleEncoder(schema)
        self._decoder = SampleDecoder(schema)

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
