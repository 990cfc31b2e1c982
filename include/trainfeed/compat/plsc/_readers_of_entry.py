"""Readers as a training gets them: each with its kind, so that nothing is batched twice.

A custom reader is a function that yields samples ``(image, label)``, or batches, which are lists of
such samples. The first item of a pass decides, unless the reader or its user says so.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainfeed.decorators import set_epoch
from trainfeed.readers import ReaderLike, open_reader

__all__ = ["CustomReader", "ImageBatch", "ReaderKind", "Readers"]


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
class CustomReader:
    """A reader of one rank whose kind is known.

    Attributes:
        read: The reader.
        kind: What the reader yields.
        batch_size: Samples per batch for a reader of samples; a reader of batches has its own.
    """

    read: ReaderLike
    kind: ReaderKind
    batch_size: int

    def batches(self, epoch: int, first: int = 0) -> Iterator[ImageBatch]:
        """Yield the batches of a pass.

        Args:
            epoch: Number of the pass, for readers that shuffle.
            first: Number of batches to skip, for a training that continues.
        """
        set_epoch(self.read, epoch)
        with open_reader(self.read) as items:
            lists = items if self.kind is ReaderKind.BATCHES else self._grouped(items)
            for rows in itertools.islice(lists, first, None):
                yield _stacked(rows)

    def _grouped(self, samples: Iterator[Any]) -> Iterator[list[Any]]:
        while rows := list(itertools.islice(samples, self.batch_size)):
            yield rows


@dataclass(frozen=True)
class Readers:
    """The readers of one rank.

    Attributes:
        train: Training data; None for a test or a prediction.
        tests: Name of a test set → its reader.
        predict: Images of a prediction; None otherwise.
    """

    train: CustomReader | None = None
    tests: Mapping[str, CustomReader] = field(default_factory=dict)
    predict: CustomReader | None = None


def _stacked(rows: list[Any]) -> ImageBatch:
    images = np.stack([np.asarray(row[0], np.float32) for row in rows])
    return ImageBatch(images, np.array([row[1] for row in rows], np.int64))
