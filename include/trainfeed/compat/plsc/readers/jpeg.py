"""Images in a folder with ``label.txt``: the layout that PLSC expects by default."""

from __future__ import annotations

import logging
import os
import re
from array import array
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from trainfeed.compat.plsc.settings import rank_from_environ
from trainfeed.conversion.images import ImageOptions, ImageSample, image_sample, require_pillow
from trainfeed.conversion.sorting import sort_keys
from trainfeed.core.datacenters import local_source
from trainfeed.core.whole_numbers import rank_of, whole
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.files import listed, open_plain, read_plain
from trainfeed.readers import ended

# --- The images of one rank, whatever holds them


class RankImages:
    """Base class of the readers of one rank's images, of which each pass mirrors others.

    Args:
        data_dir: Folder of the data.
        images: Classes, shape and normalisation; ``flip_seed`` is set by ``seed``.
        seed: Seed of mirroring, and of the order where passes have orders; None for neither.
        rank: Number of this rank.
        world_size: Number of ranks.

    Raises:
        ConfigError: Pillow is not installed, or the rank is out of range.
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
        self._seed = None if seed is None else whole("seed", seed)
        self._rank, self._world_size = rank_of(rank, world_size)
        self._epoch = 0

    @classmethod
    def of_this_rank(
        cls,
        data_dir: str | os.PathLike[str],
        num_classes: int,
        shape: tuple[int, int] | None,
        seed: int,
    ) -> Self:
        """Return the reader of the rank that the environment names."""
        rank, world_size = rank_from_environ()
        images = ImageOptions(shape=shape, num_classes=num_classes)
        return cls(data_dir, images=images, seed=seed, rank=rank, world_size=world_size)

    def set_epoch(self, epoch: int) -> None:
        """Make ``epoch`` the number of the next pass."""
        self._epoch = epoch

    def _begin(self) -> tuple[int, ImageOptions]:
        """Return the number of the pass that begins, and the options of its images."""
        epoch, self._epoch = self._epoch, self._epoch + 1
        if self._seed is None:
            return epoch, self._images
        return epoch, replace(self._images, flip_seed=epoch_seed(self._seed, 2 * epoch + 1))


def epoch_seed(seed: int, ordinal: int) -> int:
    """Return a seed of an epoch: ``2 * epoch`` for its order, ``2 * epoch + 1`` for mirroring."""
    return int(sort_keys(seed, np.array([ordinal], np.uint64))[0])


# --- ``label.txt``: the images of a folder and their labels, checked line by line before a training

LABEL_LIST: Final = "label.txt"
_MAX_LINE_BYTES: Final = 1 << 16
_BUFFER_BYTES: Final = 1 << 20
# Folders whose names are kept while the lines are checked: lists are usually in order of folders.
_KEPT_FOLDERS: Final = 64
_LABEL: Final = re.compile(rb"[+-]?[0-9]{1,18}")


class Row(NamedTuple):
    """A line of the list.

    Attributes:
        number: Number of the line, from 1.
        path: Path of the image, relative to the folder.
        label: Number of the class.
    """

    number: int
    path: str
    label: int


class LabelList:
    """All lines of a list, in arrays: millions of lines take little more memory than the file."""

    def __init__(self) -> None:
        self._paths = bytearray()
        self._ends = array("q", [0])
        self._numbers = array("q")
        self._labels = array("q")

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> Row:
        path = self._paths[self._ends[index] : self._ends[index + 1]]
        return Row(self._numbers[index], os.fsdecode(bytes(path)), self._labels[index])

    @property
    def labels(self) -> NDArray[np.int64]:
        """The labels, shape ``(len(self),)``."""
        return np.array(self._labels, np.int64)

    def add(self, row: Row) -> None:
        """Add a line."""
        self._paths += os.fsencode(row.path)
        self._ends.append(len(self._paths))
        self._numbers.append(row.number)
        self._labels.append(row.label)


def read_label_list(folder: Path, num_classes: int | None) -> LabelList:
    """Read the list of a folder of images.

    Args:
        folder: The folder with ``label.txt``.
        num_classes: Labels must be from 0 to ``num_classes - 1``; None for any from 0 on.

    Raises:
        NotFoundError: There is no list.
        FormatError: A line is wrong, or its file is missing, or there is no line; the message has
            the number of the line.
    """
    path, found = folder / LABEL_LIST, LabelList()
    names = lru_cache(_KEPT_FOLDERS)(_names_in)
    with open_plain(path, follow=True, buffering=_BUFFER_BYTES) as file:
        for number, line in enumerate(iter(lambda: file.readline(_MAX_LINE_BYTES), b""), 1):
            try:
                if line.strip():
                    row = _row(line, number, num_classes)
                    _require_file(folder, row.path, names)
                    found.add(row)
            except FormatError as error:
                raise FormatError(f"line {number}: {error}", path=str(path)) from None
    if not len(found):
        raise FormatError("expected lines 'path label', got none", path=str(path))
    return found


def _row(line: bytes, number: int, num_classes: int | None) -> Row:
    if not line.endswith(b"\n") and len(line) == _MAX_LINE_BYTES:
        raise FormatError(f"expected a line of at most {_MAX_LINE_BYTES} bytes, got more")
    columns = line.rsplit(None, 1)
    if len(columns) != 2 or not _LABEL.fullmatch(columns[1]):
        raise FormatError(f"expected 'path label' with a whole number, got {_shown(line)}")
    path, label = os.fsdecode(columns[0].strip()), int(columns[1])
    if path.startswith("/") or "\0" in path or {"", ".."} & set(path.split("/")):
        raise FormatError(f"expected a path inside the folder, got {_shown(columns[0])}")
    if label < 0 or (num_classes is not None and label >= num_classes):
        most = "on" if num_classes is None else f"to {num_classes - 1}"
        raise FormatError(f"expected a label from 0 {most}, got {label}; see set_class_num()")
    return Row(number, path, label)


def _require_file(folder: Path, path: str, names: Callable[[str], frozenset[str]]) -> None:
    above, _, name = f"{folder}/{path}".rpartition("/")
    if name not in names(above):
        raise FormatError(f"expected an image {folder / path}, there is none")


def _names_in(folder: str) -> frozenset[str]:
    # A listing per folder instead of a question per file: lists have millions of lines.
    return frozenset(path.name for path in listed(folder))


def _shown(text: bytes) -> str:
    return repr(text[:100].decode("utf-8", "backslashreplace"))


# --- Images in a folder with ``label.txt``: the layout that PLSC expects by default

_MAX_FILE_BYTES: Final = 256 << 20

logger = logging.getLogger(__name__)


class ImageFolder(RankImages):
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
        self._list = read_label_list(self._folder, images.num_classes)
        self._per_rank = -(-len(self._list) // self._world_size)
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

    def samples_from(self, position: int) -> Iterator[ImageSample]:
        """Start the next pass behind its first ``position`` images, which are not opened.

        Raises:
            ReaderEndedError: There are fewer images; raised by the pass.
            FormatError: An image cannot be decoded; raised by the pass, with line and path.
        """
        return self._read(*self._begin(), position)

    def _read(self, epoch: int, images: ImageOptions, position: int) -> Iterator[ImageSample]:
        if position > self._per_rank:
            raise ended(position, self._per_rank)
        for index in self._order(epoch)[position:]:
            row = self._list[int(index)]
            yield self._sample(row, images)

    def _order(self, epoch: int) -> NDArray[np.int64]:
        """Return the numbers of this rank's images in an epoch, shape ``(per_rank,)``."""
        order = np.arange(self.num_images)
        if self._seed is not None:
            order = np.argsort(sort_keys(epoch_seed(self._seed, 2 * epoch), order))
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
    return ImageFolder.of_this_rank(data_dir, class_dim, shape, seed)
