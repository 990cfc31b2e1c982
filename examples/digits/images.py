"""The 1,797 handwritten digits that scikit-learn ships.

Only one file of the distribution is read, so it is installed without its dependencies into a folder
of its own (``requirements/digits.txt`` says how) and never imported.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from trainfeed.errors import ConfigError, FormatError

__all__ = ["NUM_PIXELS", "Digit", "read_digits"]

NUM_PIXELS: Final = 64

_INSTALLED_AT: Final = Path("sklearn", "datasets", "data", "digits.csv.gz")


class Digit(NamedTuple):
    """One image.

    Attributes:
        number: Its place in the file, from 0.
        pixels: 8 rows of 8 pixels, each 0 to 16.
        label: The digit that was written.
    """

    number: int
    pixels: bytes
    label: int


def read_digits(data: Path) -> list[Digit]:
    """Return all digits in file order.

    Args:
        data: The folder into which scikit-learn was installed.

    Raises:
        ConfigError: The package is not installed.
        FormatError: The file is not the one that is expected.
    """
    path = data / _INSTALLED_AT
    if not path.is_file():
        raise ConfigError(
            f"expected the data of scikit-learn in {data}, {path} is missing; install it as"
            " requirements/digits.txt says, or name another folder"
        )
    return list(_parse(path))


def _parse(path: Path) -> Iterator[Digit]:
    with gzip.open(path, "rt", encoding="ascii") as lines:
        for number, line in enumerate(lines):
            *pixels, label = map(int, line.split(","))
            if len(pixels) != NUM_PIXELS:
                raise FormatError(
                    f"expected {NUM_PIXELS} pixels in line {number + 1}, got {len(pixels)}",
                    path=str(path),
                )
            yield Digit(number, bytes(pixels), label)
