"""One build, and the processor time of every stage: of this process, and of its workers.

``python -m benchmarks.pipeline.accounts FOLDER/x10 batch|record OUT`` builds into a new OUT.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Final

from benchmarks.pipeline.ours import build_once
from benchmarks.pipeline.run import children

_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Accounts:
    """Notes what all processes have used so far, stage by stage."""

    def __init__(self) -> None:
        self._last: tuple[str, float, list[float]] | None = None
        print(f"{'stage':12}{'wall':>8}{'own user':>10}{'system':>8}{'workers':>9}{'system':>8}")

    def begin(self, stage: str) -> None:
        """Say that a stage begins: the last one has ended."""
        now = time.perf_counter(), _used()
        if self._last is not None:
            name, since, used = self._last
            parts = [after - before for before, after in zip(used, now[1], strict=True)]
            widths = zip(parts, (10, 8, 9, 8), strict=True)
            print(f"{name:12}{now[0] - since:8.2f}", *(f"{p:{w}.2f}" for p, w in widths), sep="")
        self._last = stage, *now


def _used() -> list[float]:
    """Return seconds in user and system mode of this process, and of its workers."""
    own, workers = _seconds(os.getpid()), [0.0, 0.0]
    for pid in children(os.getpid()):
        workers = [a + b for a, b in zip(workers, _seconds(pid), strict=True)]
    return [*own, *workers]


def _seconds(pid: int) -> list[float]:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return [int(ticks) / _TICKS for ticks in fields[11:13]]


if __name__ == "__main__":
    accounts = Accounts()
    build_once(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), on_stage=accounts.begin)
    accounts.begin("end")
