"""CPU seconds of the parts of Airflow, each with its descendants."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

__all__ = ["cpu_seconds"]

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_seconds(parts: Mapping[str, int | None]) -> dict[str, float]:
    """CPU of each part so far: its session and its children, also those that have ended.

    Args:
        parts: Part to the pid of its process, which leads a session.
    """
    spent = dict.fromkeys(parts, 0.0)
    by_pid = {pid: name for name, pid in parts.items() if pid is not None}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended; its parent has it now
        parent, session = int(fields[1]), int(fields[3])
        # Every connection of the database is a session of its own.
        name = by_pid.get(session) or by_pid.get(parent)
        if name is not None:
            spent[name] += sum(map(int, fields[11:15])) / _TICKS_PER_S
    return spent
