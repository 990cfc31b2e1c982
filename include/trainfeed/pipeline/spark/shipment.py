"""What executors get and must have: archives known by their digests, and equal packages."""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.metadata
import re
import socket
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple
from zipimport import zipimporter

import trainfeed
from trainfeed.core import canonical_json
from trainfeed.errors import CodeChangedError, ConfigError
from trainfeed.files import walk
from trainfeed.functions import imported_names
from trainfeed.specification import DatasetSpec

# --- The installed packages that a function imports: equal, file by file, on all machines

_SHIPPED: Final = "trainfeed"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SHOWN_FILES: Final = 3
# What this process has found equal: Spark gives a process one task after another.
_SEEN: Final[set[str]] = set()
_REMEDY: Final = (
    "no record was read, nothing was published; install the same requirements/functions.txt and"
    " requirements/spark.txt, with --require-hashes, in the environments of trainfeed and of all"
    " executors, then run the build again"
)


@dataclass(frozen=True)
class FunctionPackages:
    """The packages of a function: name → version and digest, as one text.

    Attributes:
        imported: Those that a module of the data set imports.
        required: Those that they require. One that an executor lacks is not missed: requirements
            may depend on the machine.
    """

    imported: Mapping[str, str]
    required: Mapping[str, str]

    @classmethod
    def of(cls, spec: DatasetSpec) -> FunctionPackages:
        """Return the packages of a data set, as this environment has them.

        Raises:
            ConfigError: One was installed without a list of its files, or in place.
        """
        names = imported_names(spec) - sys.stdlib_module_names - {_SHIPPED}
        homes = importlib.metadata.packages_distributions() if names else {}
        packages = {each for name in names for each in _homes(name, homes.get(name, ()))}
        imported = {name: _digest(_installed(name)) for name in sorted(packages)}
        required = _required(imported)
        return cls(imported, {name: _digest(_installed(name)) for name in sorted(required)})

    def require(self, folder: Path | None) -> None:
        """Check that this executor has the same packages, and that their files are whole.

        Args:
            folder: Folder that ends with the executor, to look at all files only once; None to look
                at them again.

        Raises:
            ConfigError: A package is another one, is not there, or has a changed file.
        """
        known = canonical_json.dumps([self.imported, self.required, sys.prefix])
        seen = f"trainfeed-packages-{hashlib.sha256(known).hexdigest()}"
        if seen in _SEEN:
            return
        found = [*self._equal(self.imported), *self._equal(self.required, may_lack=True)]
        if folder is None or not (folder / seen).exists():
            for package in found:
                _require_files(package)
            if folder is not None:
                (folder / seen).touch()
        _SEEN.add(seen)

    @staticmethod
    def _equal(expected: Mapping[str, str], *, may_lack: bool = False) -> Iterator[Distribution]:
        for name, known in expected.items():
            try:
                package = _installed(name)
            except PackageNotFoundError:
                if may_lack:
                    continue
                raise _differs(name, known, "none") from None
            if (got := _digest(package)) != known:
                raise _differs(name, known, got)
            yield package


def _installed(name: str) -> Distribution:
    return importlib.metadata.distribution(name)


def _homes(name: str, packages: Iterable[str]) -> set[str]:
    """Return those of packages that list files of an imported name."""
    found = {
        _plain(package)
        for package in packages
        if any(file.top.partition(".")[0] == name for file in _importable(_installed(package)))
    }
    if not found:
        raise _unlisted(name)
    return found


def _required(names: Iterable[str]) -> set[str]:
    """Return the installed packages that packages require, and those that these require."""
    found: set[str] = set(names)
    waiting = list(found)
    while waiting:
        for name in _requirements(_installed(waiting.pop())):
            if name not in found and _is_there(name):
                found.add(name)
                waiting.append(name)
    return found - set(names) - {_SHIPPED}


def _requirements(package: Distribution) -> Iterator[str]:
    for text in package.requires or ():
        # Extras are for other uses of the package; a requirement of this machine is installed.
        if "extra" not in text.partition(";")[2] and (name := _NAME.match(text)):
            yield _plain(name[0])


def _is_there(name: str) -> bool:
    try:
        _installed(name)
    except PackageNotFoundError:
        return False
    return True


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _digest(package: Distribution) -> str:
    """Return version and digest of a package, by the list of its files."""
    files = {file.path: file.digest for file in _importable(package)}
    if not files:
        raise _unlisted(package.name)
    return f"{package.version} {hashlib.sha256(canonical_json.dumps(files)).hexdigest()}"


class _ListedFile(NamedTuple):
    """A file of a package in its ``RECORD``.

    Attributes:
        path: Path from the folder of packages on.
        digest: ``<algorithm>=<digest>``; empty for files that are compiled later.
    """

    path: str
    digest: str

    @property
    def top(self) -> str:
        """The first part of the path."""
        return PurePosixPath(self.path).parts[0]


def _importable(package: Distribution) -> Iterator[_ListedFile]:
    # Not ``package.files``: since Python 3.12 it leaves out files that are missing.
    for path, digest, *_ in csv.reader((package.read_text("RECORD") or "").splitlines()):
        file = _ListedFile(path, digest)
        if digest and file.top != ".." and not file.top.endswith((".dist-info", ".data")):
            yield file


def _require_files(package: Distribution) -> None:
    changed = [file.path for file in _importable(package) if _now(package, file) != file.digest]
    if changed:
        shown = ", ".join(changed[:_SHOWN_FILES])
        raise ConfigError(
            f"expected the files of {package.name} {package.version} on {socket.gethostname()} as"
            f" they were installed in {sys.prefix}, found {len(changed)} changed: {shown}; no"
            " record was read, nothing was published; install the package again, then run the build"
            " again"
        )


def _now(package: Distribution, file: _ListedFile) -> str:
    """Return the digest of a file as it is now; empty if it cannot be read."""
    algorithm = file.digest.partition("=")[0]
    try:
        with Path(str(package.locate_file(file.path))).open("rb") as data:
            digest = hashlib.file_digest(data, algorithm).digest()
    except OSError:
        return ""
    return f"{algorithm}={base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def _differs(name: str, expected: str, got: str) -> ConfigError:
    return ConfigError(
        f"expected the package {name} {expected} on {socket.gethostname()}, as the submitting"
        f" process has it, got {got} in {sys.prefix}; {_REMEDY}"
    )


def _unlisted(name: str) -> ConfigError:
    return ConfigError(
        f"expected {name}, which the function imports, in a package with a list of its files"
        f" (RECORD) on {socket.gethostname()}, found none in {sys.prefix}; install it from a wheel,"
        f" not in place; {_REMEDY}"
    )


# --- What executors get from the submitting process: two archives, known by their digests

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
