"""Processor time of the two sides of a copy, which the load of the machine changes little."""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

__all__ = ["ProcessorTime"]

_TICK = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class ProcessorTime:
    """Seconds of processors, user and system together.

    Attributes:
        server: Of a server and its workers.
        client: Of this process and of the programs that it ran to their end.
        storage: Of the programs of the tests' Ceph, its mount among them.
    """

    server: float
    client: float
    storage: float

    @classmethod
    def now(cls, server: int, mount: Path) -> Self:
        """Return what was used so far.

        Args:
            server: Number of the process of a server.
            mount: Folder of a mount of Ceph, whose programs have its settings beside it.
        """
        found = _processes()
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return cls(
            sum(each.seconds for pid, each in found.items() if server in (pid, each.parent)),
            sum(each.ru_utime + each.ru_stime for each in used),
            sum(each.seconds for each in found.values() if each.is_ceph_of(mount)),
        )

    def since(self, earlier: ProcessorTime, per: float) -> str:
        """Return what was used since, divided by ``per``, for a line."""
        pairs = ((name, getattr(self, name) - getattr(earlier, name)) for name in self.__dict__)
        return ", ".join(f"{name} {seconds / per:.2f}" for name, seconds in pairs)


@dataclass(frozen=True)
class _Process:
    command: str
    parent: int
    seconds: float

    def is_ceph_of(self, mount: Path) -> bool:
        return "ceph-" in self.command.partition("\0")[0] and str(mount.parent) in self.command


def _processes() -> dict[int, _Process]:
    found: dict[int, _Process] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "stat").read_text().rpartition(")")[2].split()
            seconds = (int(words[11]) + int(words[12])) * _TICK
            command = (folder / "cmdline").read_text()
            found[int(folder.name)] = _Process(command, int(words[1]), seconds)
    return found
