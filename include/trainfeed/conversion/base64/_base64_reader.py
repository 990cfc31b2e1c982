"""Reads the file of one rank that ``process_base64`` has written."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from trainfeed.conversion._foreign_input import Line, iter_lines, open_input
from trainfeed.conversion.base64._base64_rows import BadRow, GoodRow, parse_row
from trainfeed.conversion.base64._base64_tool import read_file_list
from trainfeed.conversion.base64._image_samples import ImageOptions, ImageSample, image_sample
from trainfeed.conversion.base64._images import require_pillow
from trainfeed.conversion.base64._rank_files import rank_file_name, require_size
from trainfeed.datacenters import local_source
from trainfeed.errors import ConfigError, FormatError
from trainfeed.whole_numbers import rank_of, whole

__all__ = ["base64_reader"]

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
        scale``, and an int. The reader raises FormatError with file and line at a damaged row, and
        before the first one if the file has another size than when it was written.

    Raises:
        ConfigError: The list does not name ``world_size`` files of ranks, or Pillow is not
            installed.
        NotFoundError: The list does not exist.
    """
    require_pillow()
    if images.flip_seed is not None:
        images = replace(images, flip_seed=whole("flip_seed", images.flip_seed))
    folder = Path(local_source(data_dir))
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
        require_size(path)
        with open_input(path) as file:
            for line in iter_lines(file):
                yield _decode(path, line, images)

    return read


def _decode(path: Path, line: Line, images: ImageOptions) -> ImageSample:
    try:
        row = _good_row(line.data)
        return image_sample(base64.b64decode(row.image), row.label, line.number, images)
    except (FormatError, binascii.Error) as error:
        raise FormatError(
            f"line {line.number}: {error}", path=str(path), offset_bytes=line.offset_bytes
        ) from error


def _good_row(data: bytes | None) -> GoodRow:
    row = parse_row(data)
    if isinstance(row, BadRow):
        raise FormatError(row.reason)
    return row
