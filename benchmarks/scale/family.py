"""The cost of a process and its descendants: memory in a control group, disk, processor time."""

from __future__ import annotations

import os
import resource
import subprocess
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.pipeline.run import Watch

__all__ = ["Taken", "run_family"]

# Version 1 of control groups, as machines with one hierarchy per controller mount them.
_GROUPS: Final = Path("/sys/fs/cgroup/memory")
_POLL_S: Final = 0.05
_DISK_EVERY: Final = 10


@dataclass(frozen=True)
class Taken:
    """What a family of processes took.

    Attributes:
        printed: What it printed.
        status: How it ended.
        wall_s: Seconds.
        cpu_s: Processor seconds of user and system.
        group_bytes: The most memory of its own in the control group; None without one.
        rss_bytes: The largest sum of resident memory; what is shared counts for each.
        disk_bytes: The most that its folder took.
    """

    printed: str
    status: int
    wall_s: float
    cpu_s: float
    group_bytes: int | None
    rss_bytes: int
    disk_bytes: int


def run_family(command: Sequence[str], env: dict[str, str], folder: Path, limit: int) -> Taken:
    """Run a command in a control group of its own.

    Args:
        command: What to run.
        env: Its environment.
        folder: Where it writes.
        limit: The group gets no more memory; what it needs beyond ends it.
    """
    group = _new_group(limit)
    before, started = _children_s(), time.monotonic()
    process = subprocess.Popen(
        command,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=None if group is None else lambda: _join(group),  # noqa: PLW1509
    )
    watch, own, disk, looks = Watch(process.pid), 0, 0, 0
    with (folder.parent / f"{folder.name}.log").open("w+") as log:
        os.set_blocking(process.stdout.fileno(), True)
        while process.poll() is None:
            watch.look()
            own = max(own, _own_bytes(group))
            if looks % _DISK_EVERY == 0:
                disk = max(disk, _disk_bytes(folder))
            looks += 1
            time.sleep(_POLL_S)
        log.write(process.stdout.read())
        log.seek(0)
        printed = log.read()
    if group is not None:
        group.rmdir()
    return Taken(
        printed=printed,
        status=process.returncode,
        wall_s=time.monotonic() - started,
        cpu_s=_children_s() - before,
        group_bytes=None if group is None else own,
        rss_bytes=watch.rss_bytes,
        disk_bytes=disk,
    )


def _new_group(limit: int) -> Path | None:
    if not os.access(_GROUPS / "memory.limit_in_bytes", os.W_OK):
        return None
    group = _GROUPS / f"trainfeed-{uuid.uuid4().hex[:8]}"
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text(str(limit))
    return group


def _join(group: Path) -> None:
    (group / "cgroup.procs").write_text("0")


def _own_bytes(group: Path | None) -> int:
    """Memory that is no cache of files: those pages the kernel takes back when it needs them."""
    if group is None:
        return 0
    entries = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    return int(entries["total_rss"])


def _disk_bytes(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_blocks * 512
        except OSError:
            continue
    return total


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
