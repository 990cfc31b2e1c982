"""A launch that is killed between any two steps is finished by the next: one job, one result."""

from __future__ import annotations

import json
import signal

import pytest

POINTS = (
    "launch.after_record",
    "launch.before_ConfigMap",
    "launch.before_Service",
    "launch.before_Job",
    "launch.after_create",
    "launch.before_end",
)


@pytest.mark.parametrize(
    "point", [pytest.param(p, marks=() if p == POINTS[4] else pytest.mark.nightly) for p in POINTS]
)
def test_a_launch_that_is_killed_is_finished_by_the_next(training, point):
    own = training()
    command = ("train", "clicks", "--interval", "2024-03-01", "--json")
    killed = own.command(*command, faults=f"{point}:kill")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert len(own.jobs()) <= 1
    done = own.command(*command)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["metrics"]["ranks"] == 2
    assert len(own.jobs()) == 1
