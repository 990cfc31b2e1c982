"""What every service can do, so that the command line and the tests need to know no service."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Service"]


class Service(Protocol):
    """One real service: a few daemons on the loopback with a state directory of their own.

    Nothing is shared with another instance that has another home; several may run side by side.
    All methods may be called in any state and any number of times, by one process at a time.
    """

    @property
    def name(self) -> str:
        """What the command line calls it."""

    def unavailable(self) -> str | None:
        """Say why the service cannot run on this machine, or None when it can."""

    def install(self) -> None:
        """Fetch what is missing; at once when it is all here.

        Raises:
            InstallError: It could not be fetched.
        """

    def start(self, *, fresh: bool = False) -> None:
        """Start what does not run yet; use :meth:`wait` before you talk to it.

        Args:
            fresh: Stop the service and drop its data first.

        Raises:
            ServiceError: Its data could not be prepared.
        """

    def wait(self, timeout_s: float = 60.0) -> None:
        """Wait until the service itself says that it is usable.

        Raises:
            ServiceError: A daemon died, or the time is over; with the end of the logs.
        """

    def status(self) -> dict[str, int | None]:
        """Pid of each daemon, None where it does not run."""

    def stop(self) -> None:
        """End every daemon in good order; the data stay."""

    def kill(self, daemon: str) -> None:
        """End one daemon with SIGKILL; :meth:`start` brings it back."""

    def exports(self) -> dict[str, str]:
        """Environment variables by which tests find the service."""
