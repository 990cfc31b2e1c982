"""Services of Java processes: jars of Maven artifacts, their command, and the base of services."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from services._home import default_home, remembered_ports
from services._packages import install_packages, packages_unavailable
from services._process import Daemon, InstallError, ServiceError, run_tool, stop_daemons, wait_until

# --- Jars, and the command that starts them

_JAVA = {"java": "openjdk-17-jre-headless"}
_MAVEN = {"mvn": "maven"}
_RESOLVE_S = 600.0
_FLAGS = (
    "-XX:TieredStopAtLevel=1",  # these processes live for minutes: quick start over peak speed
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-Djava.net.preferIPv4Stack=true",
)


class JavaProgram:
    """The jars that a pom names, resolved once for all homes.

    Args:
        name: Part of the folder's name.
        pom: The pom whose runtime dependencies are the program.
        resources: Folder behind the jars on the class path.
    """

    def __init__(self, name: str, pom: Path, *, resources: Path | None = None) -> None:
        self._pom = pom
        self._resources = resources
        digest = hashlib.sha256(pom.read_bytes()).hexdigest()
        # The folder appears complete or not at all, so its existence is the mark of success.
        self._jars = default_home() / "jars" / f"{name}-{digest[:16]}"

    def unavailable(self) -> str | None:
        """Return what is missing to run the program here, or None."""
        return packages_unavailable(_JAVA if self._jars.is_dir() else {**_JAVA, **_MAVEN})

    def install(self) -> None:
        """Resolve the jars unless the same pom was resolved before.

        Raises:
            InstallError: No Java, no Maven, or an artifact cannot be fetched.
        """
        install_packages(_JAVA)
        if self._jars.is_dir():
            return
        install_packages(_MAVEN)
        self._jars.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._jars.parent) as folder:
            self._resolve(Path(folder) / "jars")

    def jars(self) -> list[Path]:
        """Return the jars, in the order of the class path."""
        return sorted(self._jars.glob("*.jar"))

    def command(self, main: str, *args: str, heap_mb: int, flags: Sequence[str] = ()) -> list[str]:
        """Return the command line that runs the class ``main``."""
        path = self.jars()
        if self._resources is not None:
            path.append(self._resources)
        flags = [f"-Xmx{heap_mb}m", *_FLAGS, *flags]
        return ["java", *flags, "-cp", ":".join(map(str, path)), main, *args]

    def _resolve(self, target: Path) -> None:
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime"]
        command = ["mvn", "-B", "-q", "-ntp", "-f", str(self._pom), *goal]
        try:
            run_tool(
                [*command, f"-DoutputDirectory={target}"],
                what=f"resolving {self._pom}",
                timeout_s=_RESOLVE_S,
            )
        except ServiceError as error:
            raise InstallError(str(error)) from error
        if not self._jars.is_dir():  # another process may have been quicker
            shutil.move(target, self._jars)


# --- The base: state directory, ports, jars and daemons


class JavaService(ABC):
    """A service whose processes run the jars of one pom.

    Args:
        home: State directory of the services; that of this one is ``<home>/<name>``.
        ports: All of ``PORTS``; chosen and remembered when missing.

    Attributes:
        name: Name of the service.
        PORTS: Name → preferred port.
        home: State directory of the service.
    """

    name: str
    PORTS: Mapping[str, int]
    _POM: Path
    _DAEMONS: Sequence[str]

    def __init__(self, home: Path | None = None, *, ports: Mapping[str, int] | None = None) -> None:
        self.home = (home or default_home()).resolve() / self.name
        self._ports = ports
        self._java = JavaProgram(self.name, self._POM, resources=self._resources)
        self._daemons = {name: Daemon(name, self.home) for name in self._DAEMONS}

    @property
    def ports(self) -> Mapping[str, int]:
        """Name → port, the same at every start of this home."""
        return self._ports or remembered_ports(self.home, self.PORTS)

    def unavailable(self) -> str | None:
        """Return why the service cannot run here, or None."""
        return self._java.unavailable()

    def install(self) -> None:
        """Install Java, Maven and the jars if they are missing."""
        self._java.install()

    def start(self, *, fresh: bool = False) -> None:
        """Start the processes that do not run; the first start formats the storage."""
        if fresh:
            self.stop()
            shutil.rmtree(self._data, ignore_errors=True)
        self._spawn()

    def wait(self, timeout_s: float = 180.0) -> None:
        """Wait until the service answers."""
        wait_until(self._usable, list(self._daemons.values()), what=self.name, timeout_s=timeout_s)

    def status(self) -> dict[str, int | None]:
        """Return process → pid."""
        return {name: daemon.pid() for name, daemon in self._daemons.items()}

    def stop(self) -> None:
        """End all processes, in reverse order of their start."""
        stop_daemons(list(self._daemons.values())[::-1])

    def kill(self, daemon: str) -> None:
        """End a process with SIGKILL."""
        self._daemons[daemon].kill()

    @property
    def _resources(self) -> Path | None:
        """The folder that is on the class path behind the jars, if any."""
        return None

    @property
    def _data(self) -> Path:
        return self.home / "data"

    @property
    def _formatted(self) -> Path:
        return self._data / ".formatted"

    @abstractmethod
    def _spawn(self) -> None:
        """Start the processes that do not run."""

    @abstractmethod
    def _usable(self) -> bool:
        """Return whether the service answers."""

    def _format_with(
        self, command: list[str], *, what: str, environ: Mapping[str, str] | None = None
    ) -> None:
        """Run the command that formats the storage, and mark success."""
        shutil.rmtree(self._data, ignore_errors=True)  # the rest of an interrupted attempt
        run_tool(command, what=what, environ=environ)
        self._formatted.touch()
