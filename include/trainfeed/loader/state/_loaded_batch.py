"""The batches that a loader hands over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import LoaderError
from trainfeed.loader.state._state import LoaderState

__all__ = ["Batch", "Standing"]


class Standing(Protocol):
    """An object that can compute the state of a loader at one point."""

    def state(self) -> LoaderState:
        """Return the state."""


class Batch(dict[str, NDArray[Any]]):
    """Field → array of shape ``(b, *S)``; masked where an optional field is absent.

    Fields whose size varies are arrays of shape ``(b,)`` and dtype object, which hold bytes, str,
    arrays or None. A caller may keep any array, and any slice of it, as long as needed.

    A tool that maps a function over the arrays makes a new batch of the fields alone,
    ``type(batch)(fields)``. Such a batch has no state and does not know its padded rows: ask the
    batch that the loader handed over.
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
        """Number of rows, including padded ones."""
        return len(next(iter(self.values()))) if self else 0

    @property
    def num_padded(self) -> int:
        """Number of rows at the end that only fill the batch.

        Raises:
            LoaderError: The batch was made of the fields of another one.
        """
        self._handed_over()
        return self._num_padded

    @property
    def valid(self) -> NDArray[np.bool_]:
        """True for rows that count, False for padded rows; shape ``(b,)``.

        Raises:
            LoaderError: The batch was made of the fields of another one.
        """
        valid = np.ones(self.num_rows, bool)
        valid[self.num_rows - self.num_padded :] = False
        return valid

    @property
    def standing(self) -> Standing:
        """The object that computes the loader's state right after this batch.

        Raises:
            LoaderError: The batch was made of the fields of another one.
        """
        return self._handed_over()

    @property
    def state(self) -> LoaderState:
        """The state of the loader right after this batch.

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
