"""The form of a sample: tells samples from batches of samples, and makes arrays of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import SampleShapeError
from trainfeed.whole_numbers import whole_value

__all__ = ["ImageBatch", "ReaderKind", "SampleForm"]

_NO_NUMBERS: Final = -1


class ReaderKind(StrEnum):
    """The items of a reader."""

    SAMPLES = "samples"
    BATCHES = "batches"


@dataclass(frozen=True)
class ImageBatch:
    """The samples of one step of one rank.

    Attributes:
        images: Shape ``(n, *image_shape)``, float32.
        labels: Shape ``(n,)``, int64; None for a prediction.
    """

    images: NDArray[np.float32]
    labels: NDArray[np.int64] | None


@dataclass(frozen=True)
class SampleForm:
    """The form of the samples of one training, test or prediction.

    A sample is a tuple or list of an image and a label. In a prediction it may also be an image
    alone, or a tuple with an image alone. A batch is a list or tuple of samples.

    Attributes:
        image_shape: Shape of an image.
        num_classes: Labels are from 0 to ``num_classes - 1``.
        has_labels: Whether samples need labels; a prediction drops them.
    """

    image_shape: tuple[int, ...]
    num_classes: int
    has_labels: bool = True

    def kinds_of(self, item: Any) -> list[ReaderKind]:
        """Return what an item of a reader can be: one kind, both, or none."""
        kinds = []
        if self._is_sample(item):
            kinds.append(ReaderKind.SAMPLES)
        # Batches are lists; a tuple is one only if it can be nothing else.
        may_be_batch = isinstance(item, list) or (isinstance(item, tuple) and not kinds)
        if may_be_batch and item and all(map(self._is_sample, item)):
            kinds.append(ReaderKind.BATCHES)
        return kinds

    def stacked(self, rows: Any, place: str) -> ImageBatch:
        """Return the arrays of a batch.

        Args:
            rows: The samples.
            place: Reader and batch, for messages.

        Raises:
            SampleShapeError: The batch is no list of samples, or a sample has another shape, or a
                label that is no class.
        """
        if not isinstance(rows, list | tuple) or not rows:
            raise SampleShapeError(f"{place}: expected a list of samples, got {described(rows)}")
        pairs = [self._columns(row, f"{place}, sample {i}") for i, row in enumerate(rows)]
        images = [self._image(image, f"{place}, sample {i}") for i, (image, _) in enumerate(pairs)]
        if not self.has_labels:
            return ImageBatch(np.stack(images), None)
        labels = [self._label(label, f"{place}, sample {i}") for i, (_, label) in enumerate(pairs)]
        return ImageBatch(np.stack(images), np.array(labels, np.int64))

    def _is_sample(self, item: Any) -> bool:
        if isinstance(item, list | tuple):
            if len(item) == 2 and self._is_image(item[0]) and num_dimensions(item[1]) == 0:
                return True
            if not self.has_labels and len(item) == 1 and self._is_image(item[0]):
                return True
        return not self.has_labels and self._is_image(item)

    def _is_image(self, value: Any) -> bool:
        return num_dimensions(value) == len(self.image_shape)

    def _columns(self, row: Any, place: str) -> tuple[Any, Any]:
        if isinstance(row, list | tuple) and len(row) == 2 and num_dimensions(row[1]) == 0:
            return row[0], row[1]
        if self.has_labels:
            raise SampleShapeError(f"{place}: expected (image, label), got {described(row)}")
        is_alone = isinstance(row, list | tuple) and len(row) == 1 and not self._is_image(row)
        return (row[0] if is_alone else row), None

    def _image(self, value: Any, place: str) -> NDArray[np.float32]:
        try:
            image = np.asarray(value, np.float32)
        except (TypeError, ValueError):
            raise SampleShapeError(
                f"{place}: expected an image of numbers, got {described(value)}"
            ) from None
        if image.shape != self.image_shape:
            raise SampleShapeError(
                f"{place}: expected an image of shape {self.image_shape}, got {image.shape};"
                " resize images in the reader, or call set_image_shape()"
            )
        return image

    def _label(self, value: Any, place: str) -> int:
        number = value.item() if isinstance(value, np.ndarray) and value.size == 1 else value
        try:
            return whole_value("a label", number, 0, self.num_classes - 1)
        except ValueError as error:
            remedy = "write int(label)" if isinstance(number, str) else "see set_class_num()"
            raise SampleShapeError(f"{place}: {error}; {remedy} in the reader") from None


def num_dimensions(value: Any) -> int:
    """Return the dimensions of a value, with 0 for a number or an array of one; -1 for no array."""
    if isinstance(value, str):
        return 0  # a label that was not converted: its own message follows
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        return _NO_NUMBERS
    if array.dtype.kind not in "biuf":
        return _NO_NUMBERS
    return 0 if array.shape == (1,) else array.ndim


def described(value: Any) -> str:
    """Return types and shapes of an item, for messages: values may be large."""
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape} in {value.dtype}"
    if not isinstance(value, list | tuple):
        return f"{type(value).__name__} {value!r:.40}"
    return f"{type(value).__name__} of {len(value)}: {_described_parts(value)}"


def _described_parts(values: Sequence[Any]) -> str:
    shown = ", ".join(
        f"{type(v).__name__} of {len(v)}" if isinstance(v, list | tuple) else described(v)
        for v in values[:3]
    )
    return f"{shown}, …" if len(values) > 3 else shown
