"""Variables of a feed list: name, shape and dtype of the columns that a training step expects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import ConfigError, SampleShapeError
from trainfeed.readers import open_reader

__all__ = ["FeedVariable", "fed", "feed_variables"]

# Dtypes of the original that have another name in numpy.
_DTYPES: Final = {"fp16": "float16", "fp32": "float32", "fp64": "float64", "size_t": "uint64"}


@dataclass(frozen=True)
class FeedVariable:
    """Name, shape and dtype of a column that a training step expects.

    Attributes:
        name: Name of the column.
        sizes: Shape of one sample, with -1 for any size; None if not declared.
        dtype: Dtype of the column; None if not declared.
    """

    name: str
    sizes: tuple[int, ...] | None = None
    dtype: np.dtype[Any] | None = None

    @classmethod
    def of(cls, given: Any) -> Self:
        """Return the variable of a name, or of an object with a ``name``.

        Args:
            given: A text; or an object with ``name`` and optionally ``dtype``, ``lod_level`` and
                ``shape``. The first size of the shape is the batch size; None and negative sizes
                stand for any size.

        Raises:
            ConfigError: The dtype does not exist in numpy, or the samples are sequences
                (``lod_level``).
        """
        name = str(getattr(given, "name", given))
        if getattr(given, "lod_level", 0):
            raise ConfigError(
                f"expected {name!r} with lod_level 0, got {given.lod_level}: sequences of several"
                " lengths have no array; pad them, and feed their lengths as a column of their own"
            )
        shape = getattr(given, "shape", None)
        sizes = None if shape is None else tuple(_size(size) for size in tuple(shape)[1:])
        return cls(name, sizes, _dtype(name, getattr(given, "dtype", None)))

    def of_samples(self, column: Any) -> Any:
        """Convert a column of samples to the shape and dtype of the variable.

        Args:
            column: An array of shape ``(batch_size, *S)``, or a list of texts.

        Returns:
            An array of shape ``(batch_size, *sizes)``. Samples with another number of axes, such
            as flat images, are reshaped. Numbers keep their values up to the precision of floats.

        Raises:
            SampleShapeError: The samples do not have the shape, or the dtype cannot hold their
                values.
        """
        return self._shaped(self._typed(column))

    def check_batch(self, column: Any) -> Any:
        """Return a column of a user's batch after checking its shape and dtype.

        Raises:
            SampleShapeError: Shape or dtype differ from those of the variable.
        """
        if self.sizes is not None and not (column.ndim and self._suits(column)):
            raise SampleShapeError(
                f"expected a batch of shape {('batch', *self.sizes)} for {self.name!r}, got"
                f" {column.shape}; make it so, or feed samples, which are reshaped"
            )
        if self.dtype is not None and column.dtype != self.dtype:
            raise SampleShapeError(
                f"expected a batch of {self.dtype} for {self.name!r}, got {column.dtype}; make it"
                " so, or feed samples, which are converted"
            )
        return column

    def _suits(self, column: NDArray[Any]) -> bool:
        sizes = self.sizes or ()
        shape = column.shape[1:]
        return len(shape) == len(sizes) and all(
            size in (-1, found) for size, found in zip(sizes, shape, strict=True)
        )

    def _typed(self, column: Any) -> Any:
        if self.dtype is None or getattr(column, "dtype", None) == self.dtype:
            return column
        try:
            # Casting NaN to an integer warns; the comparison below raises an error for it.
            with np.errstate(invalid="ignore"):
                typed = np.asarray(column).astype(self.dtype)
        except (ValueError, TypeError) as error:
            raise SampleShapeError(
                f"expected {self.dtype} for {self.name!r}, got {_first(column)!r:.80}"
            ) from error
        if self.dtype.kind in "biu" and not np.array_equal(typed, column):
            raise SampleShapeError(
                f"expected values that {self.dtype} holds exactly for {self.name!r}, got"
                f" {np.asarray(column)[typed != column].flat[0]!r}; round them, or declare"
                " another type"
            )
        return typed

    def _shaped(self, column: Any) -> Any:
        if self.sizes is None or self._suits(np.asarray(column)):
            return column
        # Only another number of axes is reshaped: samples of equal rank and other sizes are an
        # error, not a permutation.
        if np.ndim(column) != 1 + len(self.sizes) and self.sizes.count(-1) < 2:
            try:
                return np.asarray(column).reshape(len(column), *self.sizes)
            except ValueError:
                pass
        raise SampleShapeError(
            f"expected samples of shape {self.sizes} for {self.name!r}, got {np.shape(column)[1:]}"
        )


def feed_variables(feed_list: Iterable[Any]) -> list[FeedVariable]:
    """Return the variables of a feed list; see ``FeedVariable.of``."""
    return [FeedVariable.of(given) for given in feed_list]


def fed(
    batches: Iterator[Any],
    variables: Sequence[FeedVariable],
    *,
    are_ready: bool,
) -> Iterator[list[Any]]:
    """Yield the columns of batches in the order of the variables, converted or checked by them.

    Args:
        batches: Batches as columns by position or by name.
        variables: One variable per column.
        are_ready: Whether the user made the batches: these are checked, not converted.

    Raises:
        SampleShapeError: The number or the names of the columns differ, or a column does not fit
            its variable.
    """
    with open_reader(lambda: batches):
        for columns in batches:
            pairs = zip(variables, _in_order(columns, variables), strict=True)
            yield [v.check_batch(c) if are_ready else v.of_samples(c) for v, c in pairs]


def _in_order(
    columns: Sequence[Any] | Mapping[str, Any], variables: Sequence[FeedVariable]
) -> list[Any]:
    names = [variable.name for variable in variables]
    if isinstance(columns, Mapping):
        found = [columns[name] for name in names if name in columns]
    else:
        found = list(columns)
    if len(found) != len(names):
        have = list(columns) if isinstance(columns, Mapping) else len(found)
        raise SampleShapeError(
            f"expected {len(names)} columns as in feed_list {names}, samples have {have}"
        )
    return found


def _size(size: Any) -> int:
    return -1 if size is None or int(size) < 0 else int(size)


def _dtype(name: str, dtype: Any) -> np.dtype[Any] | None:
    if dtype is None:
        return None
    # Paddle's own dtypes are written paddle.float32 and VarType.FP32.
    text = str(dtype).rpartition(".")[2].lower()
    for candidate in (dtype, _DTYPES.get(text, text)):
        try:
            return np.dtype(candidate)
        except TypeError:
            continue
    raise ConfigError(f"expected a type that numpy has for {name!r}, got {dtype}")


def _first(column: Any) -> Any:
    return column[0] if len(column) else column
