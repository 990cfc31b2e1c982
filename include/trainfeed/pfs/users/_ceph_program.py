"""Runs the program ``ceph``: arguments as a list, a time limit, errors as those of trainfeed.

Secrets come back through a pipe and are never an argument, so no list of processes shows them.
"""

from __future__ import annotations

import errno
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trainfeed.errors import AccessDeniedError, ConfigError, NotFoundError, StorageError
from trainfeed.printable_text import printable

__all__ = ["CephProgram"]

_TAIL_CHARS: Final = 300


@dataclass(frozen=True)
class CephProgram:
    """The program ``ceph`` with the rights of an administrator.

    Attributes:
        conf: The cluster's configuration; None for the one that ``ceph`` finds by itself.
        client: Name of the administrator's key, without ``client.``.
        timeout_s: Longest time of one command, in seconds.
    """

    conf: Path | None = None
    client: str = "admin"
    timeout_s: float = 60.0

    def json(self, *arguments: str) -> Any:
        """Run a command and return its output, parsed; raises as :meth:`run` does."""
        output = self.run(*arguments, "--format=json")
        try:
            return json.loads(output)
        except ValueError as error:
            # The output may hold keys, so the message does not repeat it.
            raise StorageError(
                f"expected JSON from {_shown(arguments)}, got {len(output)} characters that are"
                " none; this version of ceph is not known to work"
            ) from error

    def json_or_none(self, *arguments: str) -> Any:
        """Run a command about one thing; return None if the cluster says that it does not exist."""
        try:
            return self.json(*arguments)
        except NotFoundError:
            return None

    def run(self, *arguments: str) -> str:
        """Run a command to its end and return its output.

        Raises:
            ConfigError: The program is not installed, or the configuration is missing.
            AccessDeniedError: The key of the administrator does not allow the command.
            NotFoundError: The cluster does not have what the command names.
            StorageError: The cluster did not answer in time, or refused for another reason.
        """
        done = self._ended(arguments)
        if done.returncode:
            raise _refusal(arguments, done)
        return done.stdout

    def _ended(self, arguments: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        conf = () if self.conf is None else ("--conf", str(self.conf))
        wait_s = f"--connect-timeout={max(1, round(self.timeout_s / 2))}"
        command = ["ceph", *conf, "--name", f"client.{self.client}", wait_s, *arguments]
        try:
            return subprocess.run(  # noqa: S603 (a list, without a shell)
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=self.timeout_s,
                check=False,
            )
        except FileNotFoundError as error:
            raise ConfigError(
                "expected the program ceph, found none; nothing was changed; install ceph-common"
                " on this machine"
            ) from error
        except subprocess.TimeoutExpired as error:
            raise _outage(arguments, f"no answer in {self.timeout_s:g} s") from error


def _refusal(arguments: tuple[str, ...], done: subprocess.CompletedProcess[str]) -> Exception:
    """Return the error of a command.

    ``ceph`` ends with the errno of the cluster's answer, and with 1 if it cannot connect.
    """
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    said = printable(lines[-1] if lines else f"status {done.returncode}")[-_TAIL_CHARS:]
    message = f"{_shown(arguments)}: {said}"
    if "timed out" in said:
        return _outage(arguments, said)
    if done.returncode == errno.EACCES or "permission" in said.lower() or "EPERM" in said:
        return AccessDeniedError(f"{message}; name a key of an administrator by --client")
    if done.returncode == errno.ENOENT:
        return NotFoundError(message)
    return StorageError(f"{message}; look at the health of the cluster, then run the command again")


def _outage(arguments: tuple[str, ...], said: str) -> StorageError:
    error = StorageError(
        f"{_shown(arguments)}: {said}; the cluster may have done it; run the same command again"
        " when the cluster answers: it goes on from what is there"
    )
    error.is_outage = True
    return error


def _shown(arguments: tuple[str, ...]) -> str:
    return printable(" ".join(("ceph", *arguments)))[:_TAIL_CHARS]
