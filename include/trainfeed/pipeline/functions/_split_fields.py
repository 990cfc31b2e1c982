"""The split hash of records that are split by fields of their first sample.

The hash is the seeded XXH3-64 of the canonical bytes of the fields. A field is one byte of presence
(0 or 1), then the little-endian value; for bytes and str, a 32-bit length and the bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from trainfeed.dataset.identity import Uint64s
from trainfeed.samples import Field, Schema
from trainfeed.samples.arrow_columns import ColumnEncoder, joined

__all__ = ["SplitFields"]

_ABSENT: Final = b"\0"


class SplitFields:
    """Hashes the fields by which a data set is split.

    Args:
        fields: The fields, of fixed size or bytes or str; at least one.
        seed: Seed of the hash.

    Attributes:
        names: Names of the fields.
    """

    def __init__(self, fields: Sequence[Field], seed: int) -> None:
        self._fields = fields
        self.names = tuple(field.name for field in fields)
        self._seed = seed

    def of_sample(self, sample: Mapping[str, Any]) -> int:
        """Return the hash of one sample."""
        data = b"".join(_canonical(field, sample.get(field.name)) for field in self._fields)
        return xxhash.xxh3_64_intdigest(data, seed=self._seed)

    def of_batch(self, samples: pa.RecordBatch) -> Uint64s:
        """Return the hash of every row, uint64 of shape (n,)."""
        data = joined([_canonical_column(field, samples) for field in self._fields])
        # Each distinct value is hashed once: a split by fields is meant for values that repeat.
        codes = data.dictionary_encode()
        hashes = np.array(
            [xxhash.xxh3_64_intdigest(v, seed=self._seed) for v in codes.dictionary.to_pylist()],
            dtype=np.uint64,
        )
        found: Uint64s = hashes[codes.indices.to_numpy()]
        return found


def _canonical(field: Field, value: Any) -> bytes:
    if value is None:
        return _ABSENT
    if field.is_text:
        data = value.encode() if isinstance(value, str) else bytes(value)
        return b"\1" + len(data).to_bytes(4, "little") + data
    return b"\1" + np.asarray(value, dtype=field.values_dtype).tobytes()


def _canonical_column(field: Field, samples: pa.RecordBatch) -> pa.Array:
    """Return the bytes of ``_canonical`` for every row, as large binaries."""
    # The typed record of a single optional field has exactly these bytes: one byte of presence, and
    # for text a 32-bit count, which is its length.
    lone = Field(field.name, field.dtype, field.shape, optional=True)
    names = [field.name] if field.name in samples.schema.names else []
    part = samples.select(names) if names else pa.RecordBatch.from_arrays([], [])
    if not names or samples.column(field.name).null_count == samples.num_rows:
        return pa.array([_ABSENT] * samples.num_rows, pa.large_binary())
    data = ColumnEncoder(Schema((lone,))).encode(part)
    absent = samples.column(field.name).is_null()
    return pc.if_else(absent, pa.scalar(_ABSENT, pa.large_binary()), data)
