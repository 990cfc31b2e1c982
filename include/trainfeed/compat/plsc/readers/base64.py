"""Base64 image files that ``trainfeed process-base64`` has distributed to the ranks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from trainfeed.compat.plsc.readers.jpeg import EpochSeeds
from trainfeed.compat.plsc.settings import rank_from_environ
from trainfeed.conversion.base64_files import base64_reader
from trainfeed.conversion.images import ImageOptions, ImageSample
from trainfeed.core.datacenters import local_source
from trainfeed.core.whole_numbers import whole
from trainfeed.readers import Reader

__all__ = ["Base64Images", "train"]


class Base64Images:
    """Reader of the images of one rank: ``(image, label)``, in the order of the rank's file.

    ``process-base64`` has shuffled the rows; a pass chooses other images to mirror than the pass
    before.

    Args:
        data_dir: Folder with the output of ``process-base64``.
        images: Classes, shape and normalisation; ``flip_seed`` is set by ``seed``.
        seed: Seed of mirroring; None mirrors no image.
        rank: Number of this rank.
        world_size: Number of ranks; there must be as many files.

    Raises:
        ConfigError: The list does not name ``world_size`` files of ranks, or Pillow is not
            installed.
        NotFoundError: There is no list.
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
        self._folder = Path(local_source(data_dir))
        self._images = images
        self._seeds = None if seed is None else EpochSeeds(whole("seed", seed))
        self._rank, self._world_size = rank, world_size
        self._epoch = 0
        self._reader(images)

    def __call__(self) -> Iterator[ImageSample]:
        """Start the next pass.

        Raises:
            FormatError: A row is damaged, or an image is not as ``images`` says; raised by the
                pass, with file and line.
        """
        epoch, self._epoch = self._epoch, self._epoch + 1
        if self._seeds is None:
            return self._reader(self._images)()
        return self._reader(replace(self._images, flip_seed=self._seeds.flips(epoch)))()

    def set_epoch(self, epoch: int) -> None:
        """Make ``epoch`` the number of the next pass."""
        self._epoch = epoch

    def _reader(self, images: ImageOptions) -> Reader:
        return base64_reader(
            self._folder, rank=self._rank, world_size=self._world_size, images=images
        )


def train(
    data_dir: str | os.PathLike[str],
    num_classes: int,
    *,
    shape: tuple[int, int] | None = (112, 112),
    seed: int = 0,
) -> Base64Images:
    """Return the reader of a training; rank and number of ranks come from the environment.

    Args:
        data_dir: Folder with the output of ``process-base64``.
        num_classes: Number of classes.
        shape: Height and width of every image; None for any.
        seed: Seed of mirroring.
    """
    rank, world_size = rank_from_environ()
    images = ImageOptions(shape=shape, num_classes=num_classes)
    return Base64Images(data_dir, images=images, seed=seed, rank=rank, world_size=world_size)
