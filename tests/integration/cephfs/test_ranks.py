"""A training whose data and checkpoints lie on CephFS, and an mds that dies in mid-epoch."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from examples.ranks.checkpoint import Checkpoint
from examples.ranks.training import CHECKPOINT_FILE, CURVE_FILE, Settings, train
from services.cephfs import CephFS
from tests.unit.ranks.points import INTERVALS, NAME, publish
from trainfeed.core import faults

REPOSITORY = Path(__file__).parents[3]
OPTIONS = {"num_epochs": 3, "global_batch": 24, "checkpoint_every": 10}


@pytest.fixture(scope="module")
def cephfs(tmp_path_factory):
    cephfs = CephFS(tmp_path_factory.mktemp("services"))
    cephfs.start()
    cephfs.wait()
    yield cephfs
    cephfs.stop()


def wait_until(holds, timeout_s=60.0):
    deadline_s = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline_s
        threading.Event().wait(0.02)


def stopped_rank(launcher):
    """Return the pid of the rank that the fault has stopped, or None."""
    children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
    states = {pid: Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1] for pid in children}
    return next((int(pid) for pid, state in states.items() if state.split()[0] == "T"), None)


def waits_for_the_file_system(pid):
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return any("request_wait_answer" in (task / "wchan").read_text() for task in tasks)


def outcome(folder):
    lines = (folder / CURVE_FILE).read_text().splitlines()
    parameters = Checkpoint.read(folder / CHECKPOINT_FILE).parameters
    return [json.loads(line) for line in lines], parameters.tobytes()


def test_an_mds_that_dies_in_mid_epoch_delays_a_training_and_changes_nothing(cephfs, tmp_path):
    root, output = cephfs.path / "root", cephfs.path / "output"
    publish(tmp_path, root)
    output.mkdir()
    shutil.copytree(root, tmp_path / "copy")
    settings = Settings(NAME, INTERVALS, tmp_path, root=tmp_path / "copy", **OPTIONS)
    train(settings, 1)

    command = [sys.executable, "-m", "examples.ranks", INTERVALS, "--dataset", NAME]
    command += ["--root", str(root), "--output", str(output), "--ranks", "2", "--threads", "1"]
    command += ["--epochs", "3", "--batch", "24", "--every", "10"]
    environ = os.environ | {
        "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'include'}",
        faults.VARIABLE: "rank0.step47:stop",
    }
    with subprocess.Popen(command, cwd=REPOSITORY, env=environ) as launcher:
        wait_until(lambda: stopped_rank(launcher) or launcher.poll() is not None)
        pid = stopped_rank(launcher)
        cephfs.kill("mds")
        os.kill(pid, signal.SIGCONT)
        wait_until(lambda: waits_for_the_file_system(pid))
        assert launcher.poll() is None
        cephfs.start()
        cephfs.wait()
        assert launcher.wait(60) == 0

    assert outcome(output) == outcome(tmp_path)
