"""The samples of a step as one number: the same for any number of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["batch_digest", "row_digests"]

_DIGEST_BYTES: Final = 8


def row_digests(samples: dict[str, NDArray[Any]]) -> bytes:
    """Return 8 bytes per sample, computed over all its fields, in the order of the samples."""
    columns = [samples[name] for name in sorted(samples)]
    rows = (b"".join(value.tobytes() for value in row) for row in zip(*columns, strict=True))
    return b"".join(blake2b(row, digest_size=_DIGEST_BYTES).digest() for row in rows)


def batch_digest(parts: Sequence[bytes], position: int) -> str:
    """Return the digest of a global batch; 16 hex digits.

    Args:
        parts: The rows' digests, by rank.
        position: Position in the epoch of the batch's first sample. Sample p is rank p mod R's.
    """
    ranks = [np.frombuffer(part, "u8") for part in parts]
    rows = np.empty(sum(map(len, ranks)), "u8")
    for rank, own in enumerate(ranks):
        rows[(rank - position) % len(ranks) :: len(ranks)] = own
    return blake2b(rows.tobytes(), digest_size=_DIGEST_BYTES).hexdigest()
