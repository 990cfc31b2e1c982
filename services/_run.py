"""Services together: the protocol of one, their start, and a command while they are up."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn, Protocol

from services._process import InstallError, ServiceError


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

    def wait(self, timeout_s: float = 180.0) -> None:
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


_GRACE_S = 10.0
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)

Tell = Callable[[str], None]


def available(services: Sequence[Service], *, require: bool, tell: Tell) -> list[Service]:
    """Install the services; return those that can run on this machine.

    Args:
        services: The wanted services.
        require: Whether to fail if a service cannot run.
        tell: Called with a message about each service that cannot run.

    Raises:
        ServiceError: A service cannot run, and ``require`` is set.
    """
    usable = []
    for service in services:
        reason = _install(service)
        if reason is None:
            usable.append(service)
        elif require:
            raise ServiceError(f"{service.name} is required and cannot run here: {reason}")
        else:
            tell(f"{service.name} cannot run here, going on without: {reason}")
    return usable


def start(services: Sequence[Service], *, fresh: bool, tell: Tell) -> None:
    """Start the services side by side and wait until all are usable.

    Raises:
        ServiceError: A service failed; the error is that of the first. The others stay as they are.
    """
    if not services:
        return
    began_s = time.monotonic()
    with ThreadPoolExecutor(len(services)) as threads:
        for _ in threads.map(lambda service: _bring_up(service, fresh=fresh), services):
            pass
    names = ", ".join(service.name for service in services)
    tell(f"{names}: usable after {time.monotonic() - began_s:.1f} s")


def run(services: Sequence[Service], command: Sequence[str], *, fresh: bool, tell: Tell) -> int:
    """Run a command with the services; return its exit status.

    A service that did not run before is stopped afterwards in any case; one that ran is left
    running. SIGTERM and SIGHUP end the command, and then the services.

    Args:
        services: The services; the command finds them by their exported variables.
        command: Program and arguments.
        fresh: Whether to drop the data of the services first.
        tell: Called with a message about the start.
    """
    idle = [service for service in services if not any(service.status().values())]
    with _signals_raise():
        try:
            start(services, fresh=fresh, tell=tell)
            return _call(command, services)
        finally:
            _ignore_signals()
            for service in reversed(idle):
                service.stop()


def _install(service: Service) -> str | None:
    reason = service.unavailable()
    if reason is None:
        try:
            service.install()
        except InstallError as error:
            reason = str(error)
    return reason


def _bring_up(service: Service, *, fresh: bool) -> None:
    service.start(fresh=fresh)
    service.wait()


def _call(command: Sequence[str], services: Sequence[Service]) -> int:
    exports = {name: value for service in services for name, value in service.exports().items()}
    try:
        process = subprocess.Popen(command, env={**os.environ, **exports})
    except OSError as error:
        raise ServiceError(f"the command cannot be run: {error}") from error
    try:
        status = process.wait()
    except KeyboardInterrupt:  # the command gets Ctrl-C of the terminal, too
        _end(process)
        return 128 + signal.SIGINT
    except SystemExit:
        process.terminate()
        _end(process)
        raise
    return status if status >= 0 else 128 - status


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def _signals_raise() -> Iterator[None]:
    """Turn signals that would end this process at once into exceptions."""

    def leave(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
        raise SystemExit(128 + number)

    before = {number: signal.getsignal(number) for number in (*_SIGNALS, signal.SIGINT)}
    for number in _SIGNALS:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ignore_signals() -> None:
    for number in (*_SIGNALS, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
