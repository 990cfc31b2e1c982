"""Services that answer over HTTP on the loopback."""

from __future__ import annotations

import http.client
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from services._home import default_home, remembered_ports
from services._process import Daemon, stop_daemons, wait_until

HOST: Final = "127.0.0.1"
_ASK_S: Final = 5.0


class HttpService(ABC):
    """A daemon, the address at which it answers, and the daemons that it needs.

    Attributes:
        name: Name of the service, of its daemon and port, and of its folder in the home.
        PORTS: Name → preferred port.
        HEALTH: What answers with 200 as soon as the service is usable.
        START_S: Seconds after which a start has failed.

    Args:
        home: State directory of the services; that of this one is ``<home>/<name>``.
    """

    name: ClassVar[str]
    PORTS: ClassVar[Mapping[str, int]]
    HEALTH: ClassVar[str]
    START_S: ClassVar[float] = 60.0

    def __init__(self, home: Path | None = None) -> None:
        self.home = (home or default_home()).resolve() / self.name
        self._daemon = Daemon(self.name, self.home)

    @property
    def ports(self) -> Mapping[str, int]:
        """Name → port, the same at every start of this home."""
        return remembered_ports(self.home, self.PORTS)

    @property
    def address(self) -> str:
        """``host:port`` of the daemon."""
        return f"{HOST}:{self.ports[self.name]}"

    @property
    def url(self) -> str:
        """Address for clients."""
        return f"http://{self.address}"

    def start(self, *, fresh: bool = False) -> None:
        """Start the daemon, if it does not run.

        Args:
            fresh: Stop it before, and begin without its data.
        """
        if fresh:
            self.stop()
            self._forget()
        if self._daemon.pid() is None:
            self._spawn()

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until the service answers."""
        wait_until(
            self._usable, self._daemons(), what=self.name, timeout_s=timeout_s or self.START_S
        )

    def status(self) -> dict[str, int | None]:
        """Return process → pid."""
        return {daemon.name: daemon.pid() for daemon in self._daemons()}

    def stop(self) -> None:
        """End the processes."""
        stop_daemons([self._daemon])

    def kill(self, daemon: str) -> None:
        """End one process with SIGKILL."""
        next(each for each in self._daemons() if each.name == daemon).kill()

    def _daemons(self) -> Sequence[Daemon]:
        """Return the daemon, and those that it needs."""
        return [self._daemon]

    @abstractmethod
    def _spawn(self) -> None:
        """Start the process."""

    @abstractmethod
    def _forget(self) -> None:
        """Remove the data."""

    def _usable(self) -> bool:
        connection = http.client.HTTPConnection(self.address, timeout=_ASK_S)
        try:
            connection.request("GET", self.HEALTH)
            is_healthy = connection.getresponse().status == http.client.OK
            # A daemon of another home may have the port, and then ours has ended.
            return is_healthy and self._daemon.pid() is not None
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
