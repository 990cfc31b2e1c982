"""A schema registry: Apicurio, with the interface of Confluent's and its schemas in memory."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from services._home import default_home
from services._http_service import HOST, HttpService
from services._packages import install_packages, packages_unavailable
from services._process import InstallError, ServiceError, run_tool

_VERSION = "3.0.9"  # the last one that runs on Java 17
_ARTIFACT = f"io.apicurio:apicurio-registry-app:{_VERSION}:tar.gz:all"
_ARCHIVE = f"apicurio-registry-app-{_VERSION}-all.tar.gz"
_RUNNER = f"apicurio-registry-app-{_VERSION}-runner.jar"
_SHA256 = "2b28181501a20cbf6efcd77f9b7153908fc01f3d3a7c32024c0bd9e1b04c8a43"
_JAVA = {"java": "openjdk-17-jre-headless"}
_MAVEN = {"mvn": "maven"}
_FETCH_S = 600.0
_PATH = "/apis/ccompat/v7"
_FLAGS = ("-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")


class Registry(HttpService):
    """A schema registry without authentication, on the loopback alone; a restart forgets all.

    Args:
        home: State directory of the services; that of this one is ``<home>/registry``.
    """

    name = "registry"
    PORTS: ClassVar[Mapping[str, int]] = MappingProxyType({"registry": 18085})
    HEALTH = f"{_PATH}/subjects"
    START_S = 180.0

    def __init__(self, home: Path | None = None) -> None:
        super().__init__(home)
        # The folder appears complete or not at all, so its existence is the mark of success.
        self._jars = default_home() / "jars" / f"registry-{_SHA256[:16]}"

    @property
    def url(self) -> str:
        """Address for clients."""
        return f"http://{self.address}{_PATH}"

    def unavailable(self) -> str | None:
        """Return what is missing to run the registry here, or None."""
        return packages_unavailable(_JAVA if self._jars.is_dir() else {**_JAVA, **_MAVEN})

    def install(self) -> None:
        """Fetch the archive with all jars, unless it was fetched before.

        Raises:
            InstallError: No Java, no Maven, or the archive cannot be fetched or is another one.
        """
        install_packages(_JAVA)
        if self._jars.is_dir():
            return
        install_packages(_MAVEN)
        self._jars.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._jars.parent) as folder:
            _fetch(Path(folder))
            if not self._jars.is_dir():  # another process may have been quicker
                shutil.move(Path(folder) / "jars", self._jars)

    def _spawn(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        command = ["java", *_FLAGS, "-jar", str(self._jars / _RUNNER)]
        self._daemon.spawn(command, environ={**os.environ, **self._settings()})

    def _forget(self) -> None:
        """Its schemas are in the memory of the process alone."""

    def exports(self) -> dict[str, str]:
        """Return the variable by which tests find the registry."""
        return {"TEST_REGISTRY_URL": self.url}

    def _settings(self) -> dict[str, str]:
        return {
            "APICURIO_STORAGE_KIND": "sql",
            "APICURIO_STORAGE_SQL_KIND": "h2",  # in memory
            "QUARKUS_HTTP_HOST": HOST,
            "QUARKUS_HTTP_PORT": str(self.ports["registry"]),
            "QUARKUS_LOG_LEVEL": "WARN",
            "QUARKUS_MANAGEMENT_ENABLED": "false",
        }


def _fetch(folder: Path) -> None:
    """Fetch the archive and unpack it into ``jars`` below a folder."""
    copy = ["dependency:copy", f"-Dartifact={_ARTIFACT}", f"-DoutputDirectory={folder}"]
    try:
        run_tool(
            ["mvn", "-B", "-q", "-ntp", *copy], what=f"fetching {_ARTIFACT}", timeout_s=_FETCH_S
        )
    except ServiceError as error:
        raise InstallError(str(error)) from error
    archive = folder / _ARCHIVE
    with archive.open("rb") as file:
        if (found := hashlib.file_digest(file, "sha256").hexdigest()) != _SHA256:
            raise InstallError(f"expected {_ARCHIVE} with SHA-256 {_SHA256}, got {found}")
    with tarfile.open(archive) as packed:
        packed.extractall(folder / "jars", filter="data")
    archive.unlink()
