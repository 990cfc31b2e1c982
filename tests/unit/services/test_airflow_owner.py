"""The process that runs an Airflow, and the processes that may end it; no Airflow is started."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from services._home import REPOSITORY
from services._process import Daemon, ServiceError
from services.airflow import AirflowStack

OWNER = """
import sys, threading
from pathlib import Path
from services.airflow import AirflowStack
AirflowStack(Path(sys.argv[1])).own()
print("mine", flush=True)
threading.Event().wait(60)
"""


@pytest.fixture
def owner(tmp_path):
    """Another process that owns the Airflow of ``tmp_path``."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout.readline() == b"mine\n"
        yield process
        process.kill()


def test_stopping_ends_the_owner_and_what_was_left(owner, tmp_path):
    part = Daemon("scheduler", tmp_path / "airflow")
    part.spawn(["sleep", "60"])
    AirflowStack(tmp_path).stop()
    assert owner.wait(30) < 0
    assert part.pid() is None


def test_a_second_owner_is_refused_and_told_who_the_first_is(owner, tmp_path):
    with pytest.raises(ServiceError, match=rf"process {owner.pid} runs.*make stop"):
        AirflowStack(tmp_path).own()
    assert owner.poll() is None


def test_an_owner_that_was_killed_leaves_its_place(owner, tmp_path):
    owner.kill()
    owner.wait()
    stack = AirflowStack(tmp_path)
    stack.own()
    stack.own()
    started = time.monotonic()
    stack.stop()
    assert time.monotonic() - started < 30
