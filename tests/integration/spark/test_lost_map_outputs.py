"""Map outputs that are gone when some shards are written and others are not: SPARK-23207."""

from __future__ import annotations

import logging
import os
import signal

import pytest

from tests.integration.spark.running import executor_of, running, send, shuffle_files

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("is_killed", [False, True], ids=["files", "files and executor"])
def test_lost_map_outputs_are_made_again_and_no_row_is_lost(
    project, clicks, tmp_path, monkeypatch, caplog, is_killed
):
    """Every shard waits before its end. One goes on; then an executor loses what it holds."""
    caplog.set_level(logging.INFO, "trainfeed")
    project.edit("samples_per_shard: 50", "shards: 12")
    case = clicks.read_again()
    here = case.at(tmp_path / "here", "local")
    here.build()
    conf = {"spark.executorEnv.TEST_FOLDER": str(tmp_path)}
    master = os.environ["TEST_SPARK_MASTER"]
    there = case.in_groups(7).at(tmp_path / "there", "spark", master, **conf)
    monkeypatch.setenv("TRAINFEED_FAULTS", "convert.before_sync:stop")
    with running(there, tmp_path) as build:
        first, second = build.until_stopped(2)
        send(first, signal.SIGCONT)
        build.until_told(caplog, r"preprocess (\d+) of \1 tasks, write [1-9]\d* of")
        lost = shuffle_files(second)
        assert lost
        for file in lost:
            file.unlink()
        if is_killed:
            for pid in (executor_of(second), second):
                send(pid, signal.SIGKILL)
        build.finish()
    assert ("Lost executor" if is_killed else "FetchFailed") in caplog.text
    assert there.digest == here.digest
