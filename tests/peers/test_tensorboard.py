"""Event files as TensorBoard's own reader loads them: after a kill, and while a training runs."""

import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tensorboard.backend.event_processing import event_accumulator

from trainfeed.training.tracking import EventFiles

KILLED = """
import os, signal, sys
from pathlib import Path
from trainfeed.training.tracking import EventFiles
files = EventFiles(Path(sys.argv[1]), "job")
files.begin([], [])
for step in range(200):
    files.add(step, {"loss": 1.0 / (step + 1), "late/share": float("nan") if step == 7 else step})
os.kill(os.getpid(), signal.SIGKILL)
"""


def read(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Return the curves of a folder, as TensorBoard shows them."""
    events = event_accumulator.EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return {
        name: [(point.step, point.value) for point in events.Scalars(name)]
        for name in events.Tags()["scalars"]
    }


def line(step: int, loss: float) -> dict[str, float]:
    return {"step": step, "samples": step, "loss": loss}


def test_a_killed_writer_leaves_all_of_its_events(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path], env={**os.environ}, check=False)
    assert done.returncode == -signal.SIGKILL
    curves = read(tmp_path)
    assert [step for step, _ in curves["loss"]] == list(range(200))
    assert curves["loss"][3][1] == pytest.approx(0.25)
    assert math.isnan(curves["late/share"][7][1])


def test_steps_that_are_computed_again_are_shown_once(tmp_path: Path) -> None:
    first = EventFiles(tmp_path, "job")
    first.begin([], [])
    for step in range(1, 8):
        first.add(step, {"loss": float(step)})
    second = EventFiles(tmp_path, "job")
    second.begin([line(s, s) for s in range(1, 5)], [line(s, s) for s in range(5, 8)])
    for step in range(5, 10):
        second.add(step, {"loss": 10.0 * step})
    wanted = [(s, float(s)) for s in range(1, 5)] + [(s, 10.0 * s) for s in range(5, 10)]
    assert read(tmp_path) == {"loss": wanted}  # while both files are open
    first.close()
    second.close()


def test_a_reader_that_runs_beside_the_training_sees_every_step(tmp_path: Path) -> None:
    files = EventFiles(tmp_path, "job")
    files.begin([], [])
    events = event_accumulator.EventAccumulator(str(tmp_path))
    for step in range(3):
        files.add(step, {"loss": 1.0})
        events.Reload()
        assert [point.step for point in events.Scalars("loss")] == list(range(step + 1))
    files.begin([line(0, 1.0)], [line(1, 1.0), line(2, 1.0)])
    files.add(1, {"loss": 2.0})
    events.Reload()
    assert [(point.step, point.value) for point in events.Scalars("loss")] == [(0, 1.0), (1, 2.0)]
    files.close()
