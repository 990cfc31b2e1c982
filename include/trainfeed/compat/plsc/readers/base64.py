"""Base64 image files that ``trainfeed process-base64`` has distributed to the ranks."""

from __future__ import annotations

import os
from collections.abc import Iterator

from trainfeed.compat.plsc.readers.jpeg import RankImages
from trainfeed.conversion.base64_files import base64_reader
from trainfeed.conversion.images import ImageOptions, ImageSample
from trainfeed.readers import Reader

__all__ = ["Base64Images", "train"]


class Base64Images(RankImages):
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

    def __init__(
        self,
        data_dir: str | os.PathLike[str],
        *,
        images: ImageOptions,
        seed: int | None = 0,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        super().__init__(data_dir, images=images, seed=seed, rank=rank, world_size=world_size)
        self._reader(images)

    def __call__(self) -> Iterator[ImageSample]:
        """Start the next pass.

        Raises:
            FormatError: A row is damaged, or an image is not as ``images`` says; raised by the
                pass, with file and line.
        """
        _, images = self._begin()
        return self._reader(images)()

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
    return Base64Images.of_this_rank(data_dir, num_classes, shape, seed)
