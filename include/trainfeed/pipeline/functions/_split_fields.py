"""The split hash of records that are split by fields of their first sample.

The hash is the seeded XXH3-64 of the canonical bytes of the fields. A field is one byte of presence
(0 or 1), then the little-endian value; for bytes and str, a 32-bit length and the bytes. Since the
second reading rules, -0.0 has the bytes of 0.0, and each NaN those of one: equal values have equal
bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from numpy.typing import NDArray

from trainfeed.dataset.order import Uint64s
from trainfeed.reading_rules import NEWEST, ReadingRules
from trainfeed.samples import Field, Schema
from trainfeed.samples.arrow import ColumnEncoder, joined

__all__ = ["SplitFields"]

_ABSENT: Final = b"\0"


class SplitFields:
    """Hashes the fields by which a data set is split.

    Args:
        fields: The fields, of fixed size or bytes or str; at least one.
        seed: Seed of the hash.
        rules: The reading rules of the plan.

    Attributes:
        names: Names of the fields.
    """

    def __init__(self, fields: Sequence[Field], seed: int, rules: ReadingRules = NEWEST) -> None:
        self._fields = fields
        self.names = tuple(field.name for field in fields)
        self._seed = seed
        self._rules = rules

    def of_sample(self, sample: Mapping[str, Any]) -> int:
        """Return the hash of one sample."""
        data = b"".join(
            _canonical(field, sample.get(field.name), self._rules) for field in self._fields
        )
        return xxhash.xxh3_64_intdigest(data, seed=self._seed)

    def of_batch(self, samples: pa.RecordBatch) -> Uint64s:
        """Return the hash of every row, uint64 of shape (n,)."""
        data = joined([_canonical_column(field, samples, self._rules) for field in self._fields])
        # Each distinct value is hashed once: a split by fields is meant for values that repeat.
        codes = data.dictionary_encode()
        hashes = np.array(
            [xxhash.xxh3_64_intdigest(v, seed=self._seed) for v in codes.dictionary.to_pylist()],
            dtype=np.uint64,
        )
        found: Uint64s = hashes[codes.indices.to_numpy()]
        return found


def _canonical(field: Field, value: Any, rules: ReadingRules) -> bytes:
    if value is None:
        return _ABSENT
    if field.is_text:
        data = value.encode() if isinstance(value, str) else bytes(value)
        return b"\1" + len(data).to_bytes(4, "little") + data
    return b"\1" + _one_of_equals(np.asarray(value, dtype=field.values_dtype), rules).tobytes()


def _one_of_equals(values: NDArray[Any], rules: ReadingRules) -> NDArray[Any]:
    """Return values with one form of zero and one of NaN."""
    if values.dtype.kind != "f" or rules is ReadingRules.GUESSED:
        return values
    found: NDArray[Any] = np.where(np.isnan(values), np.nan, values + 0.0).astype(values.dtype)
    return found


def _canonical_column(field: Field, samples: pa.RecordBatch, rules: ReadingRules) -> pa.Array:
    """Return the bytes of ``_canonical`` for every row, as large binaries."""
    # The typed record of a single optional field has exactly these bytes: one byte of presence, and
    # for text a 32-bit count, which is its length.
    lone = Field(field.name, field.dtype, field.shape, optional=True)
    names = [field.name] if field.name in samples.schema.names else []
    part = samples.select(names) if names else pa.RecordBatch.from_arrays([], [])
    if not names or samples.column(field.name).null_count == samples.num_rows:
        return pa.array([_ABSENT] * samples.num_rows, pa.large_binary())
    data = ColumnEncoder(Schema((lone,))).encode(part)
    if field.dtype.startswith("float") and rules is not ReadingRules.GUESSED:
        kind = np.dtype(field.values_dtype)
        data = pa.array([_of_equals(each, kind, rules) for each in data.to_pylist()], data.type)
    absent = samples.column(field.name).is_null()
    return pc.if_else(absent, pa.scalar(_ABSENT, pa.large_binary()), data)


def _of_equals(data: bytes, kind: np.dtype[Any], rules: ReadingRules) -> bytes:
    return data[:1] + _one_of_equals(np.frombuffer(data[1:], kind), rules).tobytes()
