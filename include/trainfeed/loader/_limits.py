"""How much memory this process may take: the limit of its control group, if it has one."""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["free_group_bytes", "num_oom_kills"]

_ROOT: Final = Path("/sys/fs/cgroup")
_GROUPS: Final = Path("/proc/self/cgroup")
# What version 1 says when there is no limit is about as large as numbers get.
_NO_LIMIT: Final = 1 << 60


def free_group_bytes() -> int | None:
    """Return what the control group leaves, page cache counted as free; None without a limit."""
    frees = []
    for folder, limit_name, usage_name in _limits():
        limit, usage = _number(folder / limit_name), _number(folder / usage_name)
        if limit is not None and limit < _NO_LIMIT and usage is not None:
            cache = _statistic(folder / "memory.stat", ("inactive_file", "total_inactive_file"))
            frees.append(max(0, limit - usage + cache))
    return min(frees, default=None)


def num_oom_kills() -> int:
    """Return how many processes of the control group were killed for want of memory."""
    total = 0
    for folder, _, _ in _limits():
        for name in ("memory.events", "memory.oom_control"):
            total += _statistic(folder / name, ("oom_kill",))
    return total


def _limits() -> list[tuple[Path, str, str]]:
    """Return the folders of the process's groups, with the names of limit and usage therein."""
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
        # In a container the group's path may be that outside of it, and its folder the root.
        folders = [base / group.lstrip("/") for base in bases] + bases
        found += [(folder, *names) for folder in folders if (folder / names[0]).is_file()][:1]
    return found


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None


def _statistic(path: Path, names: tuple[str, ...]) -> int:
    try:
        rows = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return 0
    values = {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdecimal()}
    return next((values[name] for name in reversed(names) if name in values), 0)
