"""The processes that an Airflow consists of, by kind, for a benchmark that kills some of them.

Only processes that the benchmark itself has started are found: the parts, by the pids in the files
of their Airflow, and their descendants.
"""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

__all__ = ["KINDS", "kill", "victims"]

_PARTS = ("scheduler", "api-server", "dag-processor", "triggerer")
_BELOW_SCHEDULER = ("executor worker", "task", "process of a task")
KINDS = (*_BELOW_SCHEDULER, *_PARTS, "connection of the database", "database server")


def victims(status: Mapping[str, int | None]) -> dict[str, list[int]]:
    """Pids by kind; kinds of which there is none at the moment are left out.

    Args:
        status: Pid of each part and of the database server, as its ``AirflowStack`` says.
    """
    children = _children()
    found = {part: [pid] for part in _PARTS if (pid := status[part]) is not None}
    level = found.get("scheduler", [])
    for kind in _BELOW_SCHEDULER:
        level = [child for pid in level for child in children[pid]]
        found[kind] = level
    database = status["postgres"]
    if database is not None:
        found["connection of the database"] = children[database]
        found["database server"] = [database]
    return {kind: sorted(pids) for kind, pids in found.items() if pids}


def kill(pid: int) -> None:
    """End a process with SIGKILL, unless it has just ended by itself."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        if fields[0] != "Z":
            found[int(fields[1])].append(int(stat.parent.name))
    return found
