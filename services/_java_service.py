"""The base of services with Java processes: state directory, ports, jars and daemons."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from services._home import default_home, remembered_ports
from services._java import JavaProgram
from services._process import Daemon, run_tool, stop_daemons, wait_until


class JavaService:
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

    def wait(self, timeout_s: float = 60.0) -> None:
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

    def _spawn(self) -> None:
        raise NotImplementedError

    def _usable(self) -> bool:
        raise NotImplementedError

    def _format_with(
        self, command: list[str], *, what: str, environ: Mapping[str, str] | None = None
    ) -> None:
        """Run the command that formats the storage, and mark success."""
        shutil.rmtree(self._data, ignore_errors=True)  # the rest of an interrupted attempt
        run_tool(command, what=what, environ=environ)
        self._formatted.touch()
