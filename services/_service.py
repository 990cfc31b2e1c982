"""The protocol of services, by which command line and tests use any of them."""

from __future__ import annotations

from typing import Protocol


class Service(Protocol):
    """One real service: a few daemons on the loopback, with a state directory.

    Instances with different homes share nothing, and may run side by side. All methods may be
    called in any state and any number of times, by one process at a time.
    """

    @property
    def name(self) -> str:
        """Name of the service on the command line."""

    def unavailable(self) -> str | None:
        """Return why the service cannot run on this machine, or None."""

    def install(self) -> None:
        """Install missing programs; returns at once if there are none.

        Raises:
            InstallError: A program could not be installed.
        """

    def start(self, *, fresh: bool = False) -> None:
        """Start the daemons that do not run; call :meth:`wait` before you use the service.

        Args:
            fresh: Whether to stop the service and drop its data first.

        Raises:
            ServiceError: The data could not be prepared.
        """

    def wait(self, timeout_s: float = 60.0) -> None:
        """Wait until the service itself reports that it is usable.

        Raises:
            ServiceError: A daemon died, or the time is over; with the end of the logs.
        """

    def status(self) -> dict[str, int | None]:
        """Return daemon → pid, None for a daemon that does not run."""

    def stop(self) -> None:
        """End every daemon regularly; the data stay."""

    def kill(self, daemon: str) -> None:
        """End one daemon with SIGKILL; :meth:`start` brings it back."""

    def exports(self) -> dict[str, str]:
        """Return the environment variables by which tests find the service."""
