"""Drivers that are killed while records are preprocessed and while shards are written."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.integration.spark.running import EXECUTOR, SUBMIT, processes, running, send, until
from trainfeed.errors import EngineError

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("point", ["spark.after_function", "convert.before_sync"])
def test_a_killed_driver_takes_its_executors_along_and_the_next_attempt_builds(
    clicks, tmp_path, monkeypatch, point
):
    here = clicks.at(tmp_path / "here", "local")
    here.build()
    there = clicks.in_groups(3).at(tmp_path / "there", "spark", os.environ["TEST_SPARK_MASTER"])
    monkeypatch.setenv("TRAINFEED_FAULTS", f"{point}:stop:{tmp_path}")
    with running(there, tmp_path) as build:
        (worker,) = build.until_stopped()
        (driver,) = processes(tmp_path, SUBMIT)
        send(driver, signal.SIGKILL)
        send(worker, signal.SIGKILL)
        with pytest.raises(EngineError, match="nothing was published"):
            build.finish()
    until(lambda: not processes(tmp_path, EXECUTOR))
    assert list(Path(there.env.root).glob("clicks/versions/*/g*")) == []
    there.build()
    assert there.digest == here.digest
