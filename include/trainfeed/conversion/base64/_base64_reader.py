"""Reads the file of one rank that ``process_base64`` has written."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainfeed.conversion._foreign_input import Line, iter_lines, open_input
from trainfeed.conversion.base64._base64_rows import BadRow, GoodRow, parse_row
from trainfeed.conversion.base64._base64_tool import read_file_list
from trainfeed.conversion.base64._images import decode_image, require_pillow
from trainfeed.conversion.base64._rank_files import rank_file_name
from trainfeed.conversion.sorting import sort_keys
from trainfeed.errors import ConfigError, FormatError
from trainfeed.whole_numbers import rank_of, whole

__all__ = ["ImageOptions", "ImageSample", "base64_reader"]

# Image of shape (3, height, width), float32, and its label.
ImageSample: TypeAlias = tuple[NDArray[np.float32], int]

_HALF: Final = np.uint64(1 << 63)


@dataclass(frozen=True)
class ImageOptions:
    """How images are checked and converted.

    Attributes:
        shape: Height and width that every image must have; None for any size. Images are not
            resized.
        num_classes: Labels must be from 0 to ``num_classes - 1``; None for any label.
        mean: Number that is subtracted from every value of 0 to 255.
        scale: Number by which the difference is divided.
        flip_seed: Mirrors half of the images, chosen by this seed and the line of the image; use
            another seed for each epoch. None mirrors no image.
        max_pixels: Limit for the pixels of an image, checked before it is decoded.
    """

    shape: tuple[int, int] | None = None
    num_classes: int | None = None
    mean: float = 127.5
    scale: float = 128.0
    flip_seed: int | None = None
    max_pixels: int = 1 << 26


_DEFAULTS: Final = ImageOptions()


def base64_reader(
    data_dir: str | os.PathLike[str],
    *,
    rank: int = 0,
    world_size: int = 1,
    file_list: str = "file_list.txt",
    images: ImageOptions = _DEFAULTS,
) -> Callable[[], Iterator[ImageSample]]:
    """Make a reader of the images of one rank.

    Args:
        data_dir: The folder with the output of ``process_base64``.
        rank: Number of the rank.
        world_size: Number of ranks; there must be as many files.
        file_list: Name of the list in the folder.
        images: How images are checked and converted.

    Returns:
        A reader of ``(image, label)``: float32 of shape ``(3, height, width)``, ``(value - mean) /
        scale``, and an int. The reader raises FormatError with file and line at a damaged row.

    Raises:
        ConfigError: The list does not name ``world_size`` files of ranks, or Pillow is not
            installed.
        NotFoundError: The list does not exist.
    """
    require_pillow()
    if images.flip_seed is not None:
        images = replace(images, flip_seed=whole("flip_seed", images.flip_seed))
    folder = Path(data_dir)
    names = read_file_list(folder / file_list)
    rank, world_size = rank_of(rank, world_size)
    if names != [rank_file_name(each) for each in range(world_size)]:
        raise ConfigError(
            f"expected {folder / file_list} to list {world_size} files, {rank_file_name(0)} and so"
            f" on, got {len(names)}: {names[:3]}; run trainfeed process-base64"
            f" --nranks {world_size}"
        )
    path = folder / names[rank]

    def read() -> Iterator[ImageSample]:
        with open_input(path) as file:
            for line in iter_lines(file):
                yield _decode(path, line, images)

    return read


def _decode(path: Path, line: Line, images: ImageOptions) -> ImageSample:
    try:
        row = _good_row(line.data)
        pixels = decode_image(base64.b64decode(row.image), max_pixels=images.max_pixels)
        _check(pixels, row.label, images)
    except (FormatError, binascii.Error) as error:
        raise FormatError(
            f"line {line.number}: {error}", path=str(path), offset_bytes=line.offset_bytes
        ) from error
    if images.flip_seed is not None and _is_flipped(images.flip_seed, line.number):
        pixels = pixels[:, :, ::-1]
    image = (pixels.astype(np.float32) - np.float32(images.mean)) / np.float32(images.scale)
    return np.ascontiguousarray(image), row.label


def _good_row(data: bytes | None) -> GoodRow:
    row = parse_row(data)
    if isinstance(row, BadRow):
        raise FormatError(row.reason)
    return row


def _check(pixels: NDArray[np.uint8], label: int, images: ImageOptions) -> None:
    if images.shape is not None and pixels.shape[1:] != images.shape:
        raise FormatError(f"expected an image of {images.shape}, got {pixels.shape[1:]}")
    if images.num_classes is not None and not 0 <= label < images.num_classes:
        raise FormatError(f"expected a label from 0 to {images.num_classes - 1}, got {label}")


def _is_flipped(seed: int, number: int) -> bool:
    return bool(sort_keys(seed, np.array([number], np.uint64))[0] >= _HALF)
