"""Images in a folder with ``label.txt``: the layout that PLSC expects by default.

Every rank computes the same order of an epoch from the seed and takes its own slice of it. All
slices have the same length, so that ranks make the same number of steps: the order is padded with
its own first images.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.compat.plsc._settings import rank_from_environ
from trainfeed.compat.plsc.readers._label_list import LABEL_LIST, Row, read_label_list
from trainfeed.compat.plsc.readers._seeds import EpochSeeds
from trainfeed.conversion.images import ImageOptions, ImageSample, image_sample, require_pillow
from trainfeed.conversion.sorting import sort_keys
from trainfeed.datacenters import local_source
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.paths import read_plain
from trainfeed.readers import ended
from trainfeed.whole_numbers import rank_of, whole

__all__ = ["ImageFolder", "arc_train"]

_MAX_FILE_BYTES: Final = 256 << 20

logger = logging.getLogger(__name__)


class ImageFolder:
    """Reader of the images of one rank: ``(image, label)``, in another order in each pass.

    Args:
        data_dir: Folder with ``label.txt`` and the images that it names.
        images: Classes, shape and normalisation; ``flip_seed`` is set by ``seed``.
        seed: Seed of the order and of mirroring; None for the order of the list and no mirroring.
        rank: Number of this rank.
        world_size: Number of ranks.

    Attributes:
        num_images: Number of images of all ranks together.
        num_padded: Number of images that an epoch has twice, so that all ranks have as many.

    Raises:
        ConfigError: Pillow is not installed, or the rank is out of range.
        NotFoundError: There is no list.
        FormatError: A line of the list is wrong, or its file is missing.
    """

    batched: Final = False

    def __init__(
        self,
        data_dir: str | os.PathLike[str],
        *,
        images: ImageOptions,
        seed: int | None = 0,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        require_pillow()
        self._folder = Path(local_source(data_dir))
        self._images = images
        self._seeds = None if seed is None else EpochSeeds(whole("seed", seed))
        self._rank, self._world_size = rank_of(rank, world_size)
        self._list = read_label_list(self._folder, images.num_classes)
        self._per_rank = -(-len(self._list) // self._world_size)
        self._epoch = 0
        self.num_images = len(self._list)
        self.num_padded = self._per_rank * self._world_size - self.num_images
        if self.num_padded:
            logger.info(
                "%s has %d images: each epoch has %d of them twice, so that %d ranks have %d each",
                self._folder,
                self.num_images,
                self.num_padded,
                self._world_size,
                self._per_rank,
            )

    def __call__(self) -> Iterator[ImageSample]:
        """Start the next pass."""
        return self.samples_from(0)

    def set_epoch(self, epoch: int) -> None:
        """Make ``epoch`` the number of the next pass."""
        self._epoch = epoch

    def samples_from(self, position: int) -> Iterator[ImageSample]:
        """Start the next pass behind its first ``position`` images, which are not opened.

        Raises:
            ReaderEndedError: There are fewer images; raised by the pass.
            FormatError: An image cannot be decoded; raised by the pass, with line and path.
        """
        epoch, self._epoch = self._epoch, self._epoch + 1
        return self._read(epoch, position)

    def _read(self, epoch: int, position: int) -> Iterator[ImageSample]:
        if position > self._per_rank:
            raise ended(position, self._per_rank)
        images = self._images
        if self._seeds is not None:
            images = replace(images, flip_seed=self._seeds.flips(epoch))
        for index in self._order(epoch)[position:]:
            row = self._list[int(index)]
            yield self._sample(row, images)

    def _order(self, epoch: int) -> NDArray[np.int64]:
        """Return the numbers of this rank's images in an epoch, shape ``(per_rank,)``."""
        order = np.arange(self.num_images)
        if self._seeds is not None:
            order = np.argsort(sort_keys(self._seeds.order(epoch), order))
        start = self._rank * self._per_rank
        return np.resize(order, self._per_rank * self._world_size)[start : start + self._per_rank]

    def _sample(self, row: Row, images: ImageOptions) -> ImageSample:
        path = self._folder / row.path
        try:
            data = read_plain(path, follow=True, max_bytes=_MAX_FILE_BYTES)
            return image_sample(data, row.label, row.number, images)
        except (FormatError, NotFoundError) as error:
            raise FormatError(
                f"line {row.number} of {LABEL_LIST}: {error}", path=str(path)
            ) from error


def arc_train(
    data_dir: str | os.PathLike[str],
    class_dim: int,
    *,
    shape: tuple[int, int] | None = (112, 112),
    seed: int = 0,
) -> ImageFolder:
    """Return the reader of a training; rank and number of ranks come from the environment.

    Args:
        data_dir: Folder with ``label.txt`` and the images that it names.
        class_dim: Number of classes.
        shape: Height and width of every image; None for any.
        seed: Seed of the order and of mirroring.
    """
    rank, world_size = rank_from_environ()
    images = ImageOptions(shape=shape, num_classes=class_dim)
    return ImageFolder(data_dir, images=images, seed=seed, rank=rank, world_size=world_size)
