"""Runs a command of trainfeed under strace, which kills it before a given call of the system.

A first run of the command is only recorded: it tells which calls concern the publication root. A
killed run dies before the call takes effect, wherever in the code that is.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from services._packages import install_packages

__all__ = ["Call", "Commands"]

CALLS = (
    *("open", "openat", "mkdir", "mkdirat", "rmdir", "unlink", "unlinkat", "rename", "renameat"),
    *("renameat2", "link", "linkat", "chmod", "fchmod", "utimensat", "write", "ftruncate"),
    *("fsync", "fdatasync", "flock", "close"),
)
_LINE = re.compile(r"(\d+) +(\w+)\(")
_LIMIT_S = 120
_ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Call:
    """A call of the system in a run of a command.

    Attributes:
        name: Its name.
        number: Which call of this name it is, counted from 1.
    """

    name: str
    number: int

    def __str__(self):
        return f"{self.name} {self.number}"


class Commands:
    """Commands of trainfeed on one publication root.

    Args:
        environ: Settings ``TRAINFEED_…`` of the root.
        root: The publication root.
        scratch: A folder for records of strace.
    """

    def __init__(self, environ, root, scratch):
        install_packages({"strace": "strace"})
        self._root, self._scratch = str(root), scratch
        self._environ = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(_ROOT / "include"),
            **environ,
        }

    def run(self, *command):
        """Run a command; return its exit status and its output."""
        return self._done([], command)

    def recorded(self, *command):
        """Run a command; return the calls that concern the root, in their order."""
        record = self._scratch / "record"
        options = ["-y", "-o", str(record), "-e", f"trace={','.join(CALLS)}"]
        status, output = self._done(["strace", "-f", "--seccomp-bpf", *options], command)
        assert status == 0, output
        return list(self._calls(record.read_text(errors="replace").splitlines()))

    def killed(self, call, *command):
        """Run a command and kill it before a call; return whether it died there."""
        inject = f"inject={call.name}:signal=KILL:when={call.number}"
        options = ["-o", "/dev/null", "-e", f"trace={call.name}", "-e", inject]
        # Without --seccomp-bpf, under which this strace injects nothing.
        status, output = self._done(["strace", "-f", *options], command)
        assert status in {0, -9, 137}, output
        return status != 0

    def _calls(self, lines):
        counts, first = Counter(), None
        for line in lines:
            match = _LINE.match(line)
            if match is None:
                continue
            # The calls of a thread are counted by themselves; the main one does the work.
            first = first or match[1]
            if match[1] == first:
                counts[match[2]] += 1
                if self._root in line:
                    yield Call(match[2], counts[match[2]])

    def _done(self, prefix, command):
        done = subprocess.run(
            [*prefix, sys.executable, "-m", "trainfeed", *command],
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr
