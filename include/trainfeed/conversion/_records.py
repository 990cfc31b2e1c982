"""Samples ↔ the bytes of a record, in both containers.

In RecordIO a typed sample is a record of ``TypedCodec``, in TFRecord an Example; a value sample is
the same record in both, and so are bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainfeed.conversion._manifest import Encoding
from trainfeed.conversion._options import FileFormat
from trainfeed.errors import ConfigError, SampleShapeError
from trainfeed.samples import Schema, TypedCodec, ValueCodec
from trainfeed.tfrecord import ExampleCodec

__all__ = ["ArrayEncoder", "Decode", "Encode", "record_decoder", "record_encoder"]

Encode: TypeAlias = Callable[[Any], bytes]
Decode: TypeAlias = Callable[[bytes], Any]


def record_encoder(encoding: Encoding, schema: Schema | None, file_format: FileFormat) -> Encode:
    """Return what makes records of samples.

    Typed samples are mappings from field to value, or tuples in the order of the fields.

    Raises:
        ConfigError: The samples are typed and there is no schema.
    """
    if encoding is Encoding.BYTES:
        return _as_bytes
    if encoding is Encoding.VALUE:
        return ValueCodec().encode
    typed, names = TypedCodec(_required(schema)), _required(schema).names
    if file_format is FileFormat.RECORDIO:
        return lambda sample: typed.encode(_mapping(names, sample))
    examples = ExampleCodec(typed.schema)
    # By way of a typed record, which gives every value the dtype and shape of its field.
    return lambda sample: examples.encode(typed.decode(typed.encode(_mapping(names, sample))))


def record_decoder(encoding: Encoding, schema: Schema | None, file_format: FileFormat) -> Decode:
    """Return what makes samples of records: the inverse of ``record_encoder``.

    Raises:
        ConfigError: The samples are typed and there is no schema.
    """
    if encoding is Encoding.BYTES:
        return _as_bytes
    if encoding is Encoding.VALUE:
        return ValueCodec().decode
    if file_format is FileFormat.RECORDIO:
        return TypedCodec(_required(schema)).decode
    return ExampleCodec(_required(schema)).decode


class ArrayEncoder:
    """Encodes blocks of samples of fixed size.

    Args:
        schema: Of the samples.
        file_format: The container.

    Raises:
        ConfigError: The schema is not of fixed size.
    """

    def __init__(self, schema: Schema, file_format: FileFormat) -> None:
        if not schema.is_fixed:
            raise ConfigError(
                "expected a schema of fixed size for arrays; convert the samples one by one, with"
                " convert"
            )
        self._schema = schema
        self._typed = TypedCodec(schema)
        self._examples = None if file_format is FileFormat.RECORDIO else ExampleCodec(schema)

    def encode(
        self, block: NDArray[Any] | Mapping[str, NDArray[Any]]
    ) -> NDArray[Any] | list[bytes]:
        """Return the records of a block, as an array where they have one size.

        Raises:
            SampleShapeError: The block is none of the schema.
        """
        rows = self._rows(block)
        if self._examples is None:
            return rows
        encode, decode = self._examples.encode, self._typed.decode
        return [encode(decode(row.tobytes())) for row in rows]

    def _rows(self, block: NDArray[Any] | Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        if not isinstance(block, np.ndarray):
            return self._typed.encode_columns(block)
        expected = self._schema.record_dtype
        if block.dtype != expected or block.ndim != 1:
            raise SampleShapeError(
                f"expected blocks of {expected}, shape (n,), got {block.dtype} {block.shape}"
            )
        return block


def _as_bytes(record: Any) -> bytes:
    if not isinstance(record, bytes | bytearray | memoryview):
        raise SampleShapeError(f"expected a record as bytes, got a {type(record).__name__}")
    return bytes(record)


def _required(schema: Schema | None) -> Schema:
    if schema is None:
        raise ConfigError("expected a schema for typed samples, got none")
    return schema


def _mapping(names: tuple[str, ...], sample: Any) -> Mapping[str, Any]:
    if isinstance(sample, Mapping):
        return sample
    if not isinstance(sample, tuple) or len(sample) != len(names):
        kind = type(sample).__name__
        got = f"a tuple of {len(sample)}" if isinstance(sample, tuple) else f"a {kind}"
        raise SampleShapeError(
            f"expected a sample as a mapping or as a tuple of {len(names)} values, for"
            f" {', '.join(names)}, got {got}"
        )
    return dict(zip(names, sample, strict=True))
