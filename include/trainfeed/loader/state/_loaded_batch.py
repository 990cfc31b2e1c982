"""What a loader hands over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import LoaderError
from trainfeed.loader.state._state import LoaderState

__all__ = ["Batch", "Standing"]


class Standing(Protocol):
    """Something that knows a loader's state."""

    def state(self) -> LoaderState:
        """Return it."""


class Batch(dict[str, NDArray[Any]]):
    """Field → array of shape ``(b, *S)``; masked where an optional field is absent.

    Fields whose size varies are arrays of shape ``(b,)`` and dtype object, which hold bytes, str,
    arrays or None. Any array, and any slice of it, may be kept as long as one likes.

    A tool that maps a function over the arrays makes another one of the fields alone,
    ``type(batch)(fields)``. The loader did not hand that over: where it stands, and which of its
    rows count, is asked of the batch that the fields are from.
    """

    __slots__ = ("_num_padded", "_standing")

    def __init__(
        self,
        fields: Mapping[str, NDArray[Any]] | Iterable[tuple[str, NDArray[Any]]] = (),
        standing: Standing | None = None,
        num_padded: int = 0,
    ) -> None:
        super().__init__(fields)
        self._standing = standing
        self._num_padded = num_padded

    @property
    def num_rows(self) -> int:
        """Rows, the padded ones included."""
        return len(next(iter(self.values()))) if self else 0

    @property
    def num_padded(self) -> int:
        """How many rows at the end are there only to fill the batch.

        Raises:
            LoaderError: The batch was made of the fields of another one.
        """
        self._handed_over()
        return self._num_padded

    @property
    def valid(self) -> NDArray[np.bool_]:
        """Which rows count, shape ``(b,)``: those that do not merely fill the batch.

        Raises:
            LoaderError: The batch was made of the fields of another one.
        """
        valid = np.ones(self.num_rows, bool)
        valid[self.num_rows - self.num_padded :] = False
        return valid

    @property
    def standing(self) -> Standing:
        """What knows the loader's state right after this batch.

        Raises:
            LoaderError: The batch was made of the fields of another one.
        """
        return self._handed_over()

    @property
    def state(self) -> LoaderState:
        """Where the loader stands right after this batch.

        Raises:
            LoaderError: The batch was made of the fields of another one.
        """
        return self.standing.state()

    def _handed_over(self) -> Standing:
        if self._standing is None:
            raise LoaderError(
                "expected a batch as the loader returned it, got one that was made from its"
                " fields, perhaps by a tool that maps a function over arrays; take state, valid"
                " and num_padded before that, or give the tool trainfeed.adapters, whose batches"
                " are plain mappings with a column `valid`"
            )
        return self._standing

    def __reduce__(self) -> tuple[object, ...]:
        standing = None if self._standing is None else self.state
        return Batch, (dict(self), standing, self._num_padded)
