"""An object store: versitygw, which serves a folder of this machine over S3."""

from __future__ import annotations

import http.client
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from services._go_program import GoProgram
from services._home import default_home, make_private, remembered_ports
from services._process import Daemon, ServiceError, stop_daemons, wait_until

_MODULE: Final = Path(__file__).parent / "config" / "s3"
_PACKAGE: Final = "github.com/versity/versitygw/cmd/versitygw"
_HOST: Final = "127.0.0.1"
_REGION: Final = "us-east-1"
_HEALTH: Final = "/health"
# Extended attributes hold the metadata of an object: one step makes both appear.
_PROBE: Final = "user.trainfeed"


class S3:
    """A server of objects with one account, on the loopback alone; the data outlive a restart.

    Args:
        home: State directory of the services; that of this one is ``<home>/s3``.
    """

    name = "s3"
    PORTS: Mapping[str, int] = MappingProxyType({"s3": 17070})
    BUCKET: Final = "tests"

    def __init__(self, home: Path | None = None) -> None:
        self.home = (home or default_home()).resolve() / self.name
        self._daemon = Daemon("versitygw", self.home)
        self._program = GoProgram("versitygw", _MODULE, _PACKAGE, service="s3", is_fast=True)

    @property
    def ports(self) -> Mapping[str, int]:
        """Name → port, the same at every start of this home."""
        return remembered_ports(self.home, self.PORTS)

    @property
    def url(self) -> str:
        """Address for clients."""
        return f"http://{_HOST}:{self.ports['s3']}"

    @property
    def folder(self) -> Path:
        """The folder whose folders are the buckets."""
        return self.home / "buckets"

    def unavailable(self) -> str | None:
        """Return what is missing to run the server here, or None."""
        return self._program.unavailable()

    def install(self) -> None:
        """Build the program, unless it is built; takes minutes.

        Raises:
            InstallError: Go is missing or too old, or the build failed.
        """
        self._program.install()

    def start(self, *, fresh: bool = False) -> None:
        """Start the server, if it does not run.

        Raises:
            ServiceError: The file system of the home keeps no extended attributes.
        """
        if fresh:
            self.stop()
            shutil.rmtree(self.folder, ignore_errors=True)
        if self._daemon.pid() is not None:
            return
        make_private(self.home)
        (self.folder / self.BUCKET).mkdir(parents=True, exist_ok=True)
        _require_attributes(self.folder)
        access, secret = self.keys()
        address = f"{_HOST}:{self.ports['s3']}"
        options = ["--port", address, "--region", _REGION, "--health", _HEALTH, "--quiet"]
        options += ["--keep-alive"]
        self._daemon.spawn(
            [str(self._program.path), *options, "posix", str(self.folder)],
            environ={**os.environ, "ROOT_ACCESS_KEY": access, "ROOT_SECRET_KEY": secret},
        )

    def wait(self, timeout_s: float = 60.0) -> None:
        """Wait until the server answers."""
        wait_until(self._usable, [self._daemon], what=self.name, timeout_s=timeout_s)

    def status(self) -> dict[str, int | None]:
        """Return process → pid."""
        return {self._daemon.name: self._daemon.pid()}

    def stop(self) -> None:
        """End the process; the data stay."""
        stop_daemons([self._daemon])

    def kill(self, daemon: str) -> None:  # noqa: ARG002 - there is one
        """End the process with SIGKILL."""
        self._daemon.kill()

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

    def _usable(self) -> bool:
        connection = http.client.HTTPConnection(_HOST, self.ports["s3"], timeout=5)
        try:
            connection.request("GET", _HEALTH)
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def _require_attributes(folder: Path) -> None:
    try:
        os.setxattr(folder, _PROBE, b"1")
    except OSError as error:
        raise ServiceError(
            f"{folder} keeps no extended attributes, which the server of s3 needs: {error}; put"
            " the home elsewhere: TRAINFEED_SERVICES_HOME"
        ) from error
