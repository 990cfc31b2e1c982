"""The memory that this process may still take, and processes that the kernel killed for want of it.

The machine has a total. Control groups, if the process is in any, limit its part of it, and count
the processes that the kernel has killed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

_ROOT: Final = Path("/sys/fs/cgroup")
_GROUPS: Final = Path("/proc/self/cgroup")
_MEMINFO: Final = Path("/proc/meminfo")
# Version 1 of control groups shows a missing limit as a number near 2^63.
_NO_LIMIT: Final = 1 << 60


def available_bytes() -> int | None:
    """Return the free bytes of machine and control groups, whichever is less; None if unknown."""
    known = [free for free in (_free_of_machine(), free_group_bytes()) if free is not None]
    return min(known, default=None)


def free_group_bytes() -> int | None:
    """Return the free bytes of the control group, page cache counted as free; None without a limit.

    The groups above count, too: their limits apply to all groups in them.
    """
    frees = []
    for folder, limit_name, usage_name in _with_parents():
        limit, usage = _number(folder / limit_name), _number(folder / usage_name)
        if limit is not None and limit < _NO_LIMIT and usage is not None:
            cache = _statistic(folder / "memory.stat", ("inactive_file", "total_inactive_file"))
            frees.append(max(0, limit - usage + (cache or 0)))
    return min(frees, default=None)


class KillCount:
    """Tells whether the kernel has killed a process of the control group for want of memory.

    Kills count from the construction of the object on, or of an earlier object.

    Args:
        counts: ``counts`` of an earlier object, perhaps of another process.

    Attributes:
        counts: Kills so far, by control group; empty where the kernel does not count them.
    """

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self.counts = _num_kills() if counts is None else dict(counts)

    def has_grown(self) -> bool | None:
        """Return whether there was such a kill; None if the group has no count, or is another."""
        now = _num_kills()
        same = self.counts.keys() & now.keys()
        return any(now[group] > self.counts[group] for group in same) if same else None


def _num_kills() -> dict[str, int]:
    return {
        # With the inode: a group that was deleted and made again with the same name is another.
        f"{folder}#{folder.stat().st_ino}": count
        for folder, _, _ in _limits()
        for name in ("memory.events", "memory.oom_control")
        if (count := _statistic(folder / name, ("oom_kill",))) is not None
    }


def _free_of_machine() -> int | None:
    try:
        rows = [line.split() for line in _MEMINFO.read_text().splitlines()]
    except OSError:
        return None
    return next((int(row[1]) * 1024 for row in rows if row[0] == "MemAvailable:"), None)


def _with_parents() -> Iterator[tuple[Path, str, str]]:
    """Yield the groups of ``_limits``, each followed by the groups above it."""
    for folder, limit_name, usage_name in _limits():
        for each in (folder, *folder.parents):
            if (each / limit_name).is_file():
                yield each, limit_name, usage_name
            if each == _ROOT:
                break


def _limits() -> list[tuple[Path, str, str]]:
    """Return the folders of the process's groups, with the names of their limit and usage files."""
    try:
        lines = _GROUPS.read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if not controllers:
            bases = [_ROOT, _ROOT / "unified"]
            names = ("memory.max", "memory.current")
        elif "memory" in controllers.split(","):
            bases = [_ROOT / "memory"]
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
        else:
            continue
        # In a container, the path may be the one outside of it, while the folder is the root.
        folders = [base / group.lstrip("/") for base in bases] + bases
        found += [(folder, *names) for folder in folders if (folder / names[0]).is_file()][:1]
    return found


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None


def _statistic(path: Path, names: tuple[str, ...]) -> int | None:
    try:
        rows = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return None
    values = {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdecimal()}
    return next((values[name] for name in reversed(names) if name in values), None)
