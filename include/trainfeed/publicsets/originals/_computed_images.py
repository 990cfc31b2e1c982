"""The records of the synthetic images: a class and a number each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from trainfeed.errors import ConfigError
from trainfeed.publicsets.originals._found_originals import Originals

__all__ = ["computed_images"]

_NUM_CLASSES: Final = 1000
_NUM_IMAGES: Final = 2


def computed_images(folder: Path | None) -> Originals:
    """Return a line ``class TAB number`` for each of 2,000 images, two of every class.

    Raises:
        ConfigError: A folder was named, although nothing is read.
    """
    if folder is not None:
        raise ConfigError(
            f"expected no folder for computed images, got {folder}; nothing was built; leave out"
            " --from"
        )
    return Originals(_lines, {"kind": "synthetic: computed by trainfeed, no photograph"})


def _lines() -> Iterator[bytes]:
    for number in range(_NUM_IMAGES):
        for label in range(_NUM_CLASSES):
            yield b"%d\t%d" % (label, number)
