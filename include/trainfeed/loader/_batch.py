"""What a loader hands over."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from trainfeed.loader._state import LoaderState

__all__ = ["Batch", "Standing"]


class Standing(Protocol):
    """Something that knows a loader's state."""

    def state(self) -> LoaderState:
        """Return it."""


class Batch(dict[str, NDArray[Any]]):
    """Field → array of shape ``(b, *S)``; masked where an optional field is absent.

    Fields whose size varies are arrays of shape ``(b,)`` and dtype object, which hold bytes, str,
    arrays or None. Any array, and any slice of it, may be kept as long as one likes.

    Attributes:
        standing: Knows the loader's state right after this batch.
        num_padded: How many rows at the end are there only to fill the batch.
    """

    __slots__ = ("num_padded", "standing")

    def __init__(
        self, fields: dict[str, NDArray[Any]], standing: Standing, num_padded: int = 0
    ) -> None:
        super().__init__(fields)
        self.standing = standing
        self.num_padded = num_padded

    @property
    def num_rows(self) -> int:
        """Rows, the padded ones included."""
        return len(next(iter(self.values()))) if self else 0

    @property
    def valid(self) -> NDArray[np.bool_]:
        """Which rows count, shape ``(b,)``: those that do not merely fill the batch."""
        valid = np.ones(self.num_rows, bool)
        valid[self.num_rows - self.num_padded :] = False
        return valid

    @property
    def state(self) -> LoaderState:
        """Where the loader stands right after this batch."""
        return self.standing.state()

    def __reduce__(self) -> tuple[object, ...]:
        return Batch, (dict(self), self.state, self.num_padded)
