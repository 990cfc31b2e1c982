"""Resident memory of a command and of all that it starts, by kind of process.

``python -m benchmarks.spark.memory [--cluster] -- COMMAND…`` runs the command, and prints a line of
JSON: seconds, the largest resident memory of one process of each kind and of all together, in MiB,
and the load of the machine at the end. ``--cluster`` adds the executors on the cluster of
``python -m services run spark``, which are no children of the command.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from benchmarks.pipeline.run import children
from services.spark import Spark

__all__ = ["LOOK_S", "KindWatch", "cluster_pids"]

LOOK_S: Final = 0.2
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
# Part of the command line → kind of process; the first that fits.
_KINDS: Final[Mapping[bytes, str]] = MappingProxyType(
    {
        b"CoarseGrainedExecutorBackend": "executor",
        b"deploy.SparkSubmit": "driver",
        b"deploy.worker.Worker": "cluster",
        b"pyspark/daemon": "python worker",
        b"pyspark.daemon": "python worker",
        b"_driver.py": "python of the driver",
        b"trainfeed.pipeline.workers": "function",
    }
)
_OTHER: Final = "command"


class KindWatch:
    """Looks at processes and all that they have started.

    Args:
        pids: The first processes.

    Attributes:
        mib: Kind of process → largest resident memory of one of these.
        sum_mib: Largest resident memory of all together.
    """

    def __init__(self, pids: Sequence[int]) -> None:
        self._first = list(pids)
        self.mib: dict[str, int] = {}
        self.sum_mib = 0

    def look(self) -> None:
        """Take what the processes use now."""
        pids, total = list(self._first), 0
        for pid in pids:
            pids += children(pid)
        for pid in pids:
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
                pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            except OSError:
                continue
            kind = next((kind for part, kind in _KINDS.items() if part in command), _OTHER)
            mib = pages * _PAGE_BYTES >> 20
            total += mib
            self.mib[kind] = max(self.mib.get(kind, 0), mib)
        self.sum_mib = max(self.sum_mib, total)


def cluster_pids() -> list[int]:
    """Return the workers of the cluster of ``python -m services``, of which executors are children.

    Raises:
        SystemExit: The cluster does not run.
    """
    found = [pid for name, pid in Spark().status().items() if "worker" in name and pid is not None]
    if not found:
        raise SystemExit("expected the cluster of: python -m services run --require spark -- …")
    return found


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster", action="store_true")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    further = cluster_pids() if options.cluster else []
    started = time.perf_counter()
    process = subprocess.Popen(options.command)
    watch = KindWatch([process.pid, *further])
    while process.poll() is None:
        watch.look()
        try:
            process.wait(LOOK_S)
        except subprocess.TimeoutExpired:
            continue
    found = {
        "seconds": round(time.perf_counter() - started, 1),
        "mib": watch.mib,
        "sum_mib": watch.sum_mib,
        "load": round(os.getloadavg()[0], 1),
    }
    print(json.dumps(found), flush=True)
    sys.exit(process.returncode)


if __name__ == "__main__":
    main()
