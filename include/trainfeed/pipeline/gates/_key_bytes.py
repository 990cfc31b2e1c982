"""Keys of samples as bytes: equal bytes for equal values of the fields, and other bytes else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import xxhash
from numpy.typing import NDArray

from trainfeed.dataset.order import Uint64s
from trainfeed.samples import absent_rows

__all__ = ["key_hashes", "keys_of"]

_ABSENT: Final = b"\x00"
_PRESENT: Final = b"\x01"
_LENGTH_BYTES: Final = 8


def keys_of(columns: Sequence[NDArray[Any]]) -> list[bytes]:
    """Return the key of every sample.

    0.0 and -0.0 are equal, and so are all NaN. An absent value equals only an absent one.

    Args:
        columns: The fields of the key, each of shape ``(n, *S)``, or of objects: arrays, bytes,
            texts, None.
    """
    parts = [_parts(column) for column in columns]
    return parts[0] if len(parts) == 1 else [b"".join(row) for row in zip(*parts, strict=True)]


def key_hashes(keys: Sequence[bytes]) -> Uint64s:
    """Return a hash of every key, shape (n,)."""
    return np.fromiter(map(xxhash.xxh3_64_intdigest, keys), np.uint64, len(keys))


def _parts(column: NDArray[Any]) -> list[bytes]:
    """Return one column's part of every key; parts of one column are free of prefixes."""
    if column.dtype == object:
        return [_part(value) for value in column]
    rows = _bytes_of_rows(np.ma.getdata(column))
    absent = absent_rows(column).tolist()
    return [
        _ABSENT if is_absent else _PRESENT + row
        for is_absent, row in zip(absent, rows, strict=True)
    ]


def _part(value: object) -> bytes:
    if value is None:
        return _ABSENT
    if isinstance(value, np.ndarray):
        return _part(_plain_numbers(value).tobytes())
    data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else bytes(value)  # type: ignore[call-overload]
    return _PRESENT + len(data).to_bytes(_LENGTH_BYTES, "little") + data


def _bytes_of_rows(column: NDArray[Any]) -> list[bytes]:
    if not len(column):
        return []
    flat = np.ascontiguousarray(_plain_numbers(column)).reshape(len(column), -1)
    width = flat.shape[1] * flat.itemsize
    data = flat.tobytes()
    return [data[start : start + width] for start in range(0, len(data), width)]


def _plain_numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Replace -0.0 by 0.0, and every NaN by the same one."""
    if values.dtype.kind != "f":
        return values
    plain: NDArray[Any] = values + values.dtype.type(0)
    plain[np.isnan(plain)] = np.nan
    return plain
