"""What executors get from the submitting process: two archives, known by their digests.

The package trainfeed is imported from its archive. The folder of the data set is unpacked, because
lookups are files. An executor compares the digests of both with those in the job of the
application, so that no archive of another build, left in a folder of Spark, is taken for them.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from zipimport import zipimporter

import trainfeed
from trainfeed.errors import CodeChangedError
from trainfeed.paths import walk

__all__ = [
    "FOLDER_ARCHIVE",
    "PACKAGE_ARCHIVE",
    "Shipment",
    "forget_importers",
    "require_package",
    "unpacked",
]

PACKAGE_ARCHIVE: Final = "trainfeed-package.zip"
FOLDER_ARCHIVE: Final = "trainfeed-dataset.zip"
# One time for all files: equal contents give equal archives. It is the first that archives know.
_TIME: Final = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Shipment:
    """The archives of one application.

    Attributes:
        package: Archive with the package trainfeed.
        folder: Archive with the folder of the data set.
    """

    package: Path
    folder: Path

    @classmethod
    def pack(cls, dataset: Path, target: Path) -> Shipment:
        """Write the archives.

        Args:
            dataset: Folder of the data set.
            target: Folder for the archives.
        """
        found = cls(target / PACKAGE_ARCHIVE, target / FOLDER_ARCHIVE)
        package = Path(trainfeed.__file__).parent
        _pack(found.package, package.parent, sorted(package.rglob("*.py")))
        _pack(found.folder, dataset.parent, sorted(_files(dataset)))
        return found


def digest_of_file(path: Path) -> str:
    """Return the SHA-256 of a file in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def require_package(expected: str) -> None:
    """Check that this process has imported trainfeed from the shipped archive.

    Args:
        expected: SHA-256 of the archive.

    Raises:
        CodeChangedError: The package is another one.
    """
    archive = Path(trainfeed.__file__).parent.parent
    found = digest_of_file(archive) if archive.is_file() else str(archive)
    if found != expected:
        raise CodeChangedError(
            f"expected the package trainfeed with digest {expected}, as it was shipped, got {found}"
            f" in {sys.executable}; nothing was published; remove trainfeed from the environment"
            " and from PYTHONPATH of the executors, then run the build again"
        )


def forget_importers() -> None:
    """Forget Python's importers of the folders in archives, but those of whole archives.

    Before every task PySpark has all importers read their archive again. Python keeps one for each
    folder of an archive, so that a worker that has imported this package would read the list of its
    files 47 times: a fifth of a second of a core. A later import makes its importer again.
    """
    for place, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter) and importer.prefix:
            sys.path_importer_cache.pop(place, None)


def unpacked(archive: Path, expected: str, target: Path) -> Path:
    """Unpack the folder of a data set once per executor, and return it.

    Args:
        archive: The archive.
        expected: SHA-256 of the archive.
        target: Folder of the executor; several processes may unpack at once.

    Raises:
        CodeChangedError: The archive is another one.
    """
    place = target / f"trainfeed-{expected}"
    if not place.exists():
        if (found := digest_of_file(archive)) != expected:
            raise CodeChangedError(
                f"expected the data set's folder with digest {expected}, as it was shipped, got"
                f" {found} in {archive}; nothing was published; run the build again"
            )
        _unpack(archive, place)
    (folder,) = place.iterdir()
    return folder


def _unpack(archive: Path, place: Path) -> None:
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".unpack-") as scratch:
        whole = Path(scratch) / "whole"
        with zipfile.ZipFile(archive) as file:
            file.extractall(whole)
        try:
            whole.rename(place)
        except OSError:
            # Another process was first: a folder with content is not replaced.
            if not place.exists():
                raise


def _files(dataset: Path) -> Iterator[Path]:
    return (path for path in walk(dataset, hidden=False) if path.is_file())


def _pack(archive: Path, start: Path, files: list[Path]) -> None:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for path in files:
            entry = zipfile.ZipInfo(path.relative_to(start).as_posix(), _TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            file.writestr(entry, path.read_bytes())
