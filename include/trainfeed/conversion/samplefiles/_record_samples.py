"""Samples ↔ the bytes of a record, in RecordIO and in TFRecord.

A typed sample is a record of ``TypedCodec`` in RecordIO, and an Example in TFRecord. The record of
a value sample, and a record of bytes, is the same in both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainfeed.dataset.shards import Encoding, FileFormat
from trainfeed.errors import ConfigError, FormatError, SampleShapeError
from trainfeed.samples import LENGTH_BYTES, Schema, TypedCodec, ValueCodec, frame_records
from trainfeed.tfrecord import ExampleCodec

__all__ = [
    "ArrayEncoder",
    "Decode",
    "Encode",
    "decode_each",
    "name_file",
    "record_decoder",
    "record_encoder",
]

Encode: TypeAlias = Callable[[Iterable[Any]], Iterator[bytes]]
Decode: TypeAlias = Callable[[bytes], Any]

# Bytes of typed records that are converted to Examples together; smaller groups cost more calls.
_BATCH_BYTES: Final = 1 << 18


def record_encoder(encoding: Encoding, schema: Schema | None, file_format: FileFormat) -> Encode:
    """Return the function from samples to records, in order; it may read some samples ahead.

    Typed samples are mappings from field to value, or tuples in the order of the fields.

    Raises:
        ConfigError: The samples are typed, and there is no schema.
    """
    if encoding is Encoding.BYTES:
        return partial(_encode_each, _as_bytes)
    if encoding is Encoding.VALUE:
        return partial(_encode_each, ValueCodec().encode)
    typed, names = TypedCodec(_required(schema)), _required(schema).names
    encode: Encode = partial(_encode_each, lambda sample: typed.encode(_mapping(names, sample)))
    if file_format is FileFormat.RECORDIO:
        return encode
    # Via typed records, which give every value the dtype and shape of its field.
    return lambda samples: _examples(typed, encode(samples))


def record_decoder(encoding: Encoding, schema: Schema | None, file_format: FileFormat) -> Decode:
    """Return the function from a record to a sample: the inverse of ``record_encoder``.

    Raises:
        ConfigError: The samples are typed, and there is no schema.
    """
    if encoding is Encoding.BYTES:
        return _as_bytes
    if encoding is Encoding.VALUE:
        return ValueCodec().decode
    if file_format is FileFormat.RECORDIO:
        return TypedCodec(_required(schema)).decode
    return ExampleCodec(_required(schema)).decode


def decode_each(records: Iterable[bytes], decode: Decode, path: Path) -> Iterator[Any]:
    """Yield the samples of a file's records.

    Raises:
        FormatError: A record is not a sample; has the number of the record, from 0.
    """
    for number, record in enumerate(records):
        try:
            sample = decode(record)
        except FormatError as error:
            error.args = (f"record {number}: {error.args[0]}",)
            name_file(error, path)
            raise
        yield sample


def name_file(error: FormatError, path: Path) -> None:
    """Add the path to the error of a record; its offset counts from the start of the record."""
    if error.offset_bytes is not None:
        error.args = (f"{error.args[0]}, at byte {error.offset_bytes} of it",)
    error.path, error.offset_bytes = str(path), None


class ArrayEncoder:
    """Encodes blocks of samples of fixed size.

    Args:
        schema: Schema of the samples.
        file_format: File format of the records.

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
        """Return the records of a block: an array for RecordIO, a list for TFRecord.

        Raises:
            SampleShapeError: The block does not match the schema.
        """
        rows = self._rows(block)
        if self._examples is None:
            return rows
        columns = self._typed.decode_records(frame_records(rows), len(rows))
        return self._examples.encode_columns(columns)

    def _rows(self, block: NDArray[Any] | Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        if not isinstance(block, np.ndarray):
            return self._typed.encode_columns(block)
        expected = self._schema.record_dtype
        if block.dtype != expected or block.ndim != 1:
            raise SampleShapeError(
                f"expected blocks of {expected}, shape (n,), got {block.dtype} {block.shape}"
            )
        return block


def _encode_each(encode: Callable[[Any], bytes], samples: Iterable[Any]) -> Iterator[bytes]:
    for number, sample in enumerate(samples):
        try:
            record = encode(sample)
        except SampleShapeError as error:
            error.args = (f"sample {number}: {error.args[0]}",)
            raise
        yield record


def _examples(typed: TypedCodec, records: Iterator[bytes]) -> Iterator[bytes]:
    """Yield typed records as Examples, converted in groups."""
    codec = ExampleCodec(typed.schema)
    batch: list[bytes] = []
    num_bytes = 0
    for record in records:
        batch.append(record)
        num_bytes += LENGTH_BYTES + len(record)
        if num_bytes >= _BATCH_BYTES:
            yield from _examples_of(typed, codec, batch)
            batch, num_bytes = [], 0
    yield from _examples_of(typed, codec, batch)


def _examples_of(typed: TypedCodec, codec: ExampleCodec, records: list[bytes]) -> list[bytes]:
    """Return typed records as Examples."""
    return codec.encode_columns(typed.decode_columns(frame_records(records), len(records)))


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
