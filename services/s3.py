"""An object store: versitygw, which serves a folder of this machine over S3."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Final

from services._go_program import GoProgram
from services._home import make_private
from services._http_service import HttpService
from services._process import ServiceError

_MODULE: Final = Path(__file__).parent / "config" / "s3"
_PACKAGE: Final = "github.com/versity/versitygw/cmd/versitygw"
_REGION: Final = "us-east-1"
# Extended attributes hold the metadata of an object: one step makes both appear.
_PROBE: Final = "user.trainfeed"


class S3(HttpService):
    """A server of objects with one account, on the loopback alone; the data outlive a restart.

    Args:
        home: State directory of the services; that of this one is ``<home>/s3``.
        folder: The folder whose folders are the buckets, such as one of a CephFS; by default in
            the home.
    """

    name = "s3"
    PORTS: ClassVar[Mapping[str, int]] = MappingProxyType({"s3": 17070})
    HEALTH = "/health"
    BUCKET: Final = "tests"

    def __init__(self, home: Path | None = None, folder: Path | None = None) -> None:
        super().__init__(home)
        self.folder = folder or self.home / "buckets"
        self._program = GoProgram("versitygw", _MODULE, _PACKAGE, service="s3", is_fast=True)

    @property
    def program(self) -> Path:
        """The program of the server, where ``install`` builds it."""
        return self._program.path

    def unavailable(self) -> str | None:
        """Return what is missing to run the server here, or None."""
        return self._program.unavailable()

    def install(self) -> None:
        """Build the program, unless it is built; takes minutes.

        Raises:
            InstallError: Go is missing or too old, or the build failed.
        """
        self._program.install()

    def _spawn(self) -> None:
        """Start the server.

        Raises:
            ServiceError: The file system of the home keeps no extended attributes.
        """
        make_private(self.home)
        (self.folder / self.BUCKET).mkdir(parents=True, exist_ok=True)
        _require_attributes(self.folder)
        access, secret = self.keys()
        options = ["--port", self.address, "--region", _REGION, "--health", self.HEALTH]
        options += ["--quiet", "--keep-alive"]
        self._daemon.spawn(
            [str(self._program.path), *options, "posix", str(self.folder)],
            environ={**os.environ, "ROOT_ACCESS_KEY": access, "ROOT_SECRET_KEY": secret},
        )

    def _forget(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def keys(self) -> tuple[str, str]:
        """Return the access key and the secret key, made once for this home."""
        file = self.home / "keys"
        if not file.exists():
            make_private(self.home)
            temporary = file.with_suffix(".tmp")
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            with os.fdopen(os.open(temporary, flags, 0o600), "w") as new:
                new.write(f"{secrets.token_hex(10)} {secrets.token_hex(20)}")
            temporary.replace(file)
        access, secret = file.read_text().split()
        return access, secret

    def exports(self) -> dict[str, str]:
        """Return the variables by which tests find the server."""
        access, secret = self.keys()
        return {
            "TEST_S3_URI": f"s3://{self.BUCKET}",
            "TEST_S3_ENDPOINT": self.url,
            "TEST_S3_ACCESS_KEY": access,
            "TEST_S3_SECRET_KEY": secret,
        }


def _require_attributes(folder: Path) -> None:
    try:
        os.setxattr(folder, _PROBE, b"1")
    except OSError as error:
        raise ServiceError(
            f"{folder} keeps no extended attributes, which the server of s3 needs: {error}; put"
            " the home elsewhere: TRAINFEED_SERVICES_HOME"
        ) from error
