"""One group with 90 % of the samples, and one shard with most: memory stays within its limits."""

from __future__ import annotations

import logging
import os
import re
from concurrent.futures import wait
from pathlib import Path

import pytest

from benchmarks.pipeline.run import Watch
from tests.integration.spark.running import running
from tests.unit.pipeline.clicks import DAY_MS, START_MS, batch, event

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]
MIB = 1 << 20
LOOK_S = 0.2
# Samples of 4 KiB: 200 MB in all, of which a task may keep 32 MiB.
SAMPLES, FIELDS = 50_000, 1024
LIMITS = "resources: {memory_bytes: 32MiB, worker_memory_bytes: 700MiB, records_per_task: 100}\n"
# ``resources.memory_bytes``, and what a Python worker and the process of its function take besides.
TASK_MIB = 32 + 512


def widen(project):
    """Make samples of 4 KiB, as many as a record says."""
    project.edit("  label: {dtype: int64}", f"  label: {{dtype: float32, shape: [{FIELDS}]}}")
    project.edit('"label": n}', f'"label": [float(n)] * {FIELDS}}}', "preprocess.py")
    path = project.env.datasets / "clicks" / "dataset.yaml"
    path.write_text(path.read_text() + LIMITS)


def events(number, copies, stamp_ms):
    return [event(n, stamp_ms + n, copies=copies) for n in range(number)]


def heavy_group(project):
    """The first of five groups has nine samples of ten."""
    light = events(400, SAMPLES // 10 // 400, START_MS)
    heavy = events(100, SAMPLES * 9 // 10 // 100, START_MS)
    after = [event(0, START_MS + DAY_MS)]
    project.record({0: [batch([*heavy, *light, *after])]})


def late_split(project):
    """Nine samples of ten are late, so one shard has them."""
    project.edit("settle: 0s", "settle: 0s, late: separate")
    first = [event(0, START_MS)]
    late = events(450, SAMPLES * 9 // 10 // 450, START_MS - DAY_MS // 2)
    light = events(50, SAMPLES // 10 // 50, START_MS + 10)
    after = [event(0, START_MS + DAY_MS)]
    project.record({0: [batch([*first, *late, *light, *after])]})


def python_peaks(watch):
    """Largest resident memory of every Python worker and process of a function, in MiB."""
    return [peak // MIB for pid, peak in watch.peaks.items() if pid in watch.of_python]


class PythonWatch(Watch):
    """Looks at all processes below this one, and notes which are Python workers."""

    def __init__(self):
        super().__init__(os.getpid())
        self.of_python = set()

    def look(self):
        super().look()
        for pid in self.peaks.keys() - {os.getpid()}:
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            if b"python" in command.split(b"\0")[0] and b"_driver.py" not in command:
                self.of_python.add(pid)


@pytest.mark.parametrize("skew", [heavy_group, late_split])
def test_memory_is_bounded_when_one_task_has_most(project, clicks, tmp_path, caplog, skew):
    caplog.set_level(logging.INFO, "trainfeed")
    skew(project)
    widen(project)
    case = clicks.read_again()
    here = case.at(tmp_path / "here", "local")
    here.build()
    there = case.at(tmp_path / "there", "spark", **{"spark.driver.memory": "700m"})
    watch = PythonWatch()
    with running(there, tmp_path) as build:
        while not build.building.done():
            watch.look()
            wait([build.building], timeout=LOOK_S)
        build.finish()
    assert there.digest == here.digest
    peaks = python_peaks(watch)
    told = re.search(r"\d+ groups in .* spilled", caplog.text)
    print(f"{skew.__name__}: {told[0]}; Python MiB: {sorted(peaks)[-4:]}")  # noqa: T201
    assert max(peaks) < TASK_MIB
