"""Executors that die in the map, in the shuffle and in the write: by state, not by time.

A Python worker stops itself at a point; only then is its executor killed, with the map outputs that
it holds. The other shards fetch these, so Spark runs their map tasks again.
"""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from tests.unit.processes import until
from trainfeed.process_ties import is_stopped

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]
_EXECUTOR = b"CoarseGrainedExecutorBackend"


def parent(pid):
    text = Path(f"/proc/{pid}/stat").read_text()
    return int(text.rpartition(")")[2].split()[1])


def stopped_worker(marker):
    """The process that has stopped itself, found by the folder in its variables."""
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if marker in (entry / "environ").read_bytes() and is_stopped(int(entry.name)):
                return int(entry.name)
    return None


def executor_of(pid):
    while _EXECUTOR not in Path(f"/proc/{pid}/cmdline").read_bytes():
        pid = parent(pid)
        assert pid > 1
    return pid


@pytest.mark.parametrize(
    "point", ["spark.after_function", "spark.after_group", "convert.before_sync"]
)
def test_a_killed_executor_changes_nothing(clicks, tmp_path, monkeypatch, point):
    here = clicks.at(tmp_path / "here", "local")
    here.build()
    there = clicks.in_groups(7).at(tmp_path / "there", "spark", os.environ["TEST_SPARK_MASTER"])
    monkeypatch.setenv("TRAINFEED_FAULTS", f"{point}:stop:{tmp_path}")
    marker = os.fsencode(tmp_path)
    with ThreadPoolExecutor(1) as pool:
        building = pool.submit(there.build)
        worker = until(lambda: building.done() or stopped_worker(marker))
        if not building.done():
            for pid in (executor_of(worker), worker):
                os.kill(pid, signal.SIGKILL)
        building.result()
    assert (tmp_path / f"{point}.fired").exists()
    assert there.digest == here.digest
