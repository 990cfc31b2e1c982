"""Drivers that are killed while records are preprocessed and while shards are written."""

from __future__ import annotations

import logging
import os
import signal
from pathlib import Path

import pytest

from tests.integration.spark.conftest import LOCAL
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


@pytest.mark.parametrize("master", ["local", "standalone"])
def test_the_next_attempt_writes_only_the_shards_that_were_not_whole(
    clicks, tmp_path, monkeypatch, caplog, master
):
    caplog.set_level(logging.INFO, "trainfeed")
    here = clicks.at(tmp_path / "here", "local")
    here.build()
    url = LOCAL if master == "local" else os.environ["TEST_SPARK_MASTER"]
    there = clicks.in_groups(3).at(tmp_path / "there", "spark", url)
    monkeypatch.setenv("TRAINFEED_FAULTS", f"convert.before_sync:stop:{tmp_path}")
    with running(there, tmp_path) as build:
        (worker,) = build.until_stopped()
        build.until_told(caplog, r"write [1-9]\d* of")
        for pid in (*processes(tmp_path, SUBMIT), worker):
            send(pid, signal.SIGKILL)
        with pytest.raises(EngineError, match="nothing was published"):
            build.finish()
    until(lambda: not processes(tmp_path, EXECUTOR))
    spill = Path(there.env.work) / "spill"
    whole = {path.name.removesuffix(".part.arrow") for path in spill.glob("*/*.part.arrow")}
    found = [path for path in Path(there.env.root).rglob("*") if path.name in whole]
    files = {path.name: path.stat().st_ino for path in found}
    assert 0 < len(files) < len(list(here.version.glob("*-of-*")))
    caplog.clear()
    there.build()
    assert there.digest == here.digest
    assert f"{len(files)} shards kept of an earlier attempt" in caplog.text
    assert {name: (there.version / name).stat().st_ino for name in files} == files
