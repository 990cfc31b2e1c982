"""Rows on shared memory: no name in /dev/shm at any time, and a small one does not matter."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = """
import glob, os, signal, sys
import numpy as np
from trainfeed.compat.paddle.loading import GeneratorLoader
from trainfeed.loader import DataLoader
from tests.unit.loader.datasets import Squares

def named(pids):
    "What these processes map or hold open below /dev/shm and that still has a name there."
    found = []
    for pid in pids:
        with open(f"/proc/{pid}/maps") as file:
            found += [line.split(None, 5)[5].strip() for line in file if "/dev/shm/" in line]
        for fd in glob.glob(f"/proc/{pid}/fd/*"):
            try:
                found.append(os.readlink(fd))
            except OSError:
                continue
    return [name for name in found if name.startswith("/dev/shm/") and "(deleted)" not in name]

def children():
    tasks = glob.glob(f"/proc/{os.getpid()}/task/*/children")
    return [pid for task in tasks for pid in open(task).read().split()]

def batches():
    for i in range(6):
        yield (np.full(500_000, i),)
    if how == "exception":
        raise ValueError("of the generator")

how, which = sys.argv[1:]
if which == "generator":
    loader = GeneratorLoader.from_generator(capacity=2, use_multiprocess=True)
    loader.set_batch_generator(batches)
    columns = (column for (column,) in loader)
else:
    loader = DataLoader(Squares(3000), 500, num_workers=2)
    columns = (batch["square"] for batch in loader)
total = 0
for column in columns:
    total += int(column[0].sum())
    assert children()
    assert named([os.getpid(), *children()]) == []
    if how == "kill":
        print("killed", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "break":
        break
print("done", total)
"""


def run(how, which, prefix=()):
    return subprocess.run(
        [*prefix, sys.executable, "-c", SCRIPT, how, which],
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'include'}", "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("which", ["generator", "workers"])
@pytest.mark.parametrize("how", ["end", "break", "kill"])
def test_arrays_of_a_child_never_have_a_name(how, which):
    """S46: what has no name cannot stay behind, however a program ends."""
    done = run(how, which)
    if how == "kill":
        assert (done.returncode, done.stdout) == (-signal.SIGKILL, "killed\n"), done.stderr
    else:
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("done")


def test_an_exception_leaves_no_name_either():
    """S46."""
    done = run("exception", "generator")
    assert done.returncode == 1
    assert "ValueError: of the generator" in done.stderr


def can_mount():
    if shutil.which("unshare") is None:
        return False
    command = ["unshare", "-m", "mount", "-t", "tmpfs", "-o", "size=1m", "none", "/dev/shm"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not can_mount(), reason="a /dev/shm of its own needs the right to mount")
@pytest.mark.parametrize("which", ["generator", "workers"])
def test_a_dev_shm_of_one_mebibyte_is_enough(which):
    """S47: 4 MB batches through a child, without SIGBUS."""
    mount = 'mount -t tmpfs -o size=1m none /dev/shm && exec "$@"'
    done = run("end", which, ("unshare", "-m", "sh", "-c", mount, "sh"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("done")
