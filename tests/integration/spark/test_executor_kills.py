"""Executors that die in the map, in the shuffle and in the write, by the state of Spark's stages.

The executor takes the map outputs that it holds with it. The other shards fetch these, so Spark
runs their map tasks again.
"""

from __future__ import annotations

import logging
import os
import signal

import pytest

from tests.integration.spark.running import executor_of, running, send

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]


@pytest.mark.parametrize(
    ("point", "state"),
    [
        ("spark.after_function", r"preprocess (\d+) of (?!\1 )\d+ tasks"),
        ("spark.after_group", r"preprocess (\d+) of (?!\1 )\d+ tasks"),
        ("spark.before_shard", r"preprocess (\d+) of \1 tasks, write \d+ of"),
        ("convert.before_sync", r"preprocess (\d+) of \1 tasks, write [1-9]\d* of"),
    ],
    ids=["map", "end of the map", "shuffle", "write"],
)
def test_a_killed_executor_changes_nothing(clicks, tmp_path, monkeypatch, caplog, point, state):
    caplog.set_level(logging.INFO, "trainfeed")
    here = clicks.at(tmp_path / "here", "local")
    here.build()
    there = clicks.in_groups(7).at(tmp_path / "there", "spark", os.environ["TEST_SPARK_MASTER"])
    monkeypatch.setenv("TRAINFEED_FAULTS", f"{point}:stop:{tmp_path}")
    with running(there, tmp_path) as build:
        (worker,) = build.until_stopped()
        build.until_told(caplog, state)
        for pid in (executor_of(worker), worker):
            send(pid, signal.SIGKILL)
        build.finish()
    assert there.digest == here.digest
    assert "Lost executor" in caplog.text
