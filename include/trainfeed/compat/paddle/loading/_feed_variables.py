"""Variables of a feed list: the name, shape and type that a training step takes a column in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import ConfigError, SampleShapeError
from trainfeed.readers import open_reader

__all__ = ["FeedVariable", "fed", "feed_variables"]

# Names of the original's types that numpy has under another name.
_DTYPES: Final = {"fp16": "float16", "fp32": "float32", "fp64": "float64", "size_t": "uint64"}


@dataclass(frozen=True)
class FeedVariable:
    """What a training step takes a column as.

    Attributes:
        name: Of the column.
        sizes: The shape of one sample; -1 is any size. None: nobody says.
        dtype: The type; None: nobody says.
    """

    name: str
    sizes: tuple[int, ...] | None = None
    dtype: np.dtype[Any] | None = None

    @classmethod
    def of(cls, given: Any) -> Self:
        """Return a variable for a name, or for an object with a ``name``.

        Args:
            given: A text; or an object with ``name`` and, if it has them, ``dtype``, ``lod_level``,
                and ``shape``, of which the first size is that of the batch, and None and negative
                ones are any.

        Raises:
            ConfigError: numpy does not have the type, or the samples are sequences (``lod_level``).
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
        """Return a column of samples in the shape and the type of the variable.

        Args:
            column: Shape ``(batch_size, *S)``, or a list of texts.

        Returns:
            Shape ``(batch_size, *sizes)``. Samples of another number of axes are reshaped, as a
            flat image is; numbers keep their value, but for the precision of floats.

        Raises:
            SampleShapeError: The samples do not have the shape, or the type cannot hold them.
        """
        return self._shaped(self._typed(column))

    def check_batch(self, column: Any) -> Any:
        """Return a column of a batch that was made as it should be.

        Raises:
            SampleShapeError: Shape or type differ from those of the variable.
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
    """Yield the columns of batches in the order of the variables, each as its variable says.

    Args:
        batches: Columns by position, or by name.
        variables: One for each column.
        are_ready: The batches were made by the user: they are checked, not converted.

    Raises:
        SampleShapeError: There are other columns, or one does not suit its variable.
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
    # The original writes its own types as paddle.float32 and VarType.FP32.
    text = str(dtype).rpartition(".")[2].lower()
    for candidate in (dtype, _DTYPES.get(text, text)):
        try:
            return np.dtype(candidate)
        except TypeError:
            continue
    raise ConfigError(f"expected a type that numpy has for {name!r}, got {dtype}")


def _first(column: Any) -> Any:
    return column[0] if len(column) else column
