"""Daemons that outlive the process that started them: how they are started, found and ended.

A daemon leads a separate session. Its pid file holds the pid and the time at which the kernel
started the process. Both together identify a process: a reused pid has another start time, so no
foreign process ever gets a signal. The command line would not identify it, because Airflow rewrites
its own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from pwd import getpwnam
from typing import BinaryIO, NamedTuple

_POLL_S = 0.05
_KILL_S = 10.0
_TAIL_BYTES = 2500

# Only a parent can reap a process: without the handle, a dead daemon would stay a zombie.
_CHILDREN: dict[int, subprocess.Popen[bytes]] = {}


class ServiceError(RuntimeError):
    """A service did not start, died or failed a command; the message has the end of its log."""


class InstallError(ServiceError):
    """A program that a service needs is missing, and could not be installed."""


class _Stat(NamedTuple):
    pid: int
    state: str
    session: int
    started_ticks: int

    @property
    def dead(self) -> bool:
        return self.state in "ZX"


@dataclass(frozen=True)
class Daemon:
    """One background process with its pid file ``run/<name>.pid`` and log ``logs/<name>.log``.

    Args:
        name: Unique below ``home``.
        home: State directory of the service.
        stop_signal: The signal by which the program ends regularly.
    """

    name: str
    home: Path
    stop_signal: signal.Signals = signal.SIGTERM

    @property
    def log_file(self) -> Path:
        """Output of the present start; that of the last one is kept as ``<name>.log.1``."""
        return self.home / "logs" / f"{self.name}.log"

    @property
    def _pid_file(self) -> Path:
        return self.home / "run" / f"{self.name}.pid"

    def spawn(
        self,
        argv: Sequence[str],
        *,
        environ: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        user: str | None = None,
    ) -> int:
        """Start the process detached from this one and record it; return its pid.

        Remaining processes of an earlier start's session are ended first.

        Args:
            argv: Program and arguments.
            environ: The whole environment, or None to inherit ours.
            cwd: Working directory; ``home`` by default.
            user: Account of the process, which only root may choose.
        """
        self.sweep()
        with self.open_log() as log:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environ,
                cwd=cwd or self.home,
                start_new_session=True,
                user=user,
                group=_primary_group(user),
                extra_groups=None if user is None else [],
            )
        _CHILDREN[process.pid] = process
        self.record(process.pid)
        return process.pid

    def open_log(self) -> BinaryIO:
        """Keep the last log as ``.1`` and open an empty one, readable by the owner alone."""
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        if self.log_file.exists():
            self.log_file.replace(self.log_file.with_suffix(".log.1"))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        return os.fdopen(os.open(self.log_file, flags, 0o600), "ab")

    def record(self, pid: int) -> None:
        """Record the living process ``pid``, leader of its session, as this daemon."""
        stat = _stat(pid)
        self._pid_file.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._pid_file.with_suffix(".tmp")
        temporary.write_text(f"{pid} {stat.started_ticks if stat else 0}\n")
        temporary.replace(self._pid_file)

    def pid(self) -> int | None:
        """Return the pid of the running process, or None if it is not running."""
        recorded = self._recorded()
        if recorded is None:
            return None
        pid, started_ticks = recorded
        child = _CHILDREN.get(pid)
        if child is not None and child.poll() is not None:
            _CHILDREN.pop(pid, None)  # another thread may have done so
        stat = _stat(pid)
        ours = stat is not None and stat.started_ticks == started_ticks and not stat.dead
        return pid if ours else None

    def started_at(self) -> datetime | None:
        """Return when the recorded process was started, running or not; aware UTC."""
        try:
            return datetime.fromtimestamp(self._pid_file.stat().st_mtime, UTC)
        except FileNotFoundError:
            return None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process if it is running."""
        pid = self.pid()
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        """End the process with SIGKILL and wait for its end; its children stay."""
        self.signal(signal.SIGKILL)
        _wait_gone([self], _KILL_S)

    def sweep(self) -> None:
        """Kill the process and all others of its session, and remove the record."""
        self.kill()
        for pid in self._orphans():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._pid_file.unlink(missing_ok=True)

    def log_tail(self) -> str:
        """Return the end of the log, or of the last one if this one is empty."""
        for path in (self.log_file, self.log_file.with_suffix(".log.1")):
            tail = path.read_bytes()[-_TAIL_BYTES:] if path.exists() else b""
            if tail.strip():
                return f"--- {path}\n{tail.decode(errors='replace').strip()}"
        return f"--- {self.log_file}\n(empty)"

    def _recorded(self) -> tuple[int, int] | None:
        try:
            pid, started_ticks = self._pid_file.read_text().split()
        except (FileNotFoundError, ValueError):
            return None
        return int(pid), int(started_ticks)

    def _orphans(self) -> list[int]:
        """Return the living processes of the session, if the leader has died."""
        recorded = self._recorded()
        if recorded is None:
            return []
        leader, started_ticks = recorded
        stat = _stat(leader)
        if stat is not None and stat.started_ticks != started_ticks:
            return []  # the pid was reused, so a session with this id is not ours
        members = filter(None, (_stat(int(p.name)) for p in Path("/proc").glob("[0-9]*")))
        return [m.pid for m in members if m.session == leader and m.pid != leader and not m.dead]


def stop_daemons(
    daemons: Iterable[Daemon], *, grace_s: float = 15.0, insist_s: float | None = None
) -> None:
    """Ask all daemons to end, then kill the remaining processes of their sessions.

    Args:
        daemons: The daemons, running or not.
        grace_s: How long they may take before they are killed.
        insist_s: Time after which the signal is sent a second time, for programs that end only
            after two; None to send it once.
    """
    daemons = list(daemons)
    for daemon in daemons:
        daemon.signal(daemon.stop_signal)
    if insist_s is not None and not _wait_gone(daemons, insist_s):
        for daemon in daemons:
            daemon.signal(daemon.stop_signal)
    _wait_gone(daemons, grace_s)
    for daemon in daemons:
        daemon.sweep()


def wait_until(
    usable: Callable[[], bool], daemons: Iterable[Daemon], *, what: str, timeout_s: float
) -> None:
    """Wait until ``usable()`` holds.

    Args:
        usable: Called about twenty times a second.
        daemons: Daemons that must stay alive meanwhile.
        what: Name of the service, for the message.
        timeout_s: Longest wait.

    Raises:
        ServiceError: A daemon is not running, or the time is over; with the end of the logs.
    """
    daemons = list(daemons)
    deadline_s = time.monotonic() + timeout_s
    while not usable():
        dead = [daemon for daemon in daemons if daemon.pid() is None]
        # Called again, because a daemon may end after it has made the service usable.
        if dead and not usable():
            names = ", ".join(daemon.name for daemon in dead)
            raise ServiceError(_with_logs(f"{what} is not usable: {names} is not running", dead))
        if time.monotonic() > deadline_s:
            raise ServiceError(_with_logs(f"{what} is not usable after {timeout_s:g} s", daemons))
        time.sleep(_POLL_S)


def run_tool(
    argv: Sequence[str],
    *,
    what: str,
    environ: Mapping[str, str] | None = None,
    user: str | None = None,
    timeout_s: float = 120.0,
) -> str:
    """Run a command to its end; return its output.

    Raises:
        ServiceError: The command failed or took too long; the message has the end of its output.
    """
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=environ,
            cwd="/",
            user=user,
            group=_primary_group(user),
            extra_groups=None if user is None else [],
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ServiceError(f"{what}: {argv[0]} did not end within {timeout_s:g} s") from error
    if done.returncode:
        said = (done.stdout + done.stderr)[-_TAIL_BYTES:].decode(errors="replace").strip()
        raise ServiceError(f"{what}: {argv[0]} ended with {done.returncode}\n{said}")
    return done.stdout.decode()


def _primary_group(user: str | None) -> int | None:
    return None if user is None else getpwnam(user).pw_gid


def _with_logs(message: str, daemons: Iterable[Daemon]) -> str:
    return "\n".join([message, *(daemon.log_tail() for daemon in daemons)])


def _wait_gone(daemons: Sequence[Daemon], timeout_s: float) -> bool:
    deadline_s = time.monotonic() + timeout_s
    while any(daemon.pid() is not None for daemon in daemons):
        if time.monotonic() > deadline_s:
            return False
        time.sleep(_POLL_S)
    return True


def _stat(pid: int) -> _Stat | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may contain ")", too
    return _Stat(pid, state=fields[0], session=int(fields[3]), started_ticks=int(fields[19]))
