"""Fault points: no-ops unless asked for, and exact when they are."""

import subprocess
import sys

import pytest

from trainfeed.core import faults


@pytest.fixture(autouse=True)
def forget():
    faults._plan.cache_clear()
    yield
    faults._plan.cache_clear()


def test_a_point_does_nothing_unless_asked_for(monkeypatch):
    monkeypatch.delenv(faults.VARIABLE, raising=False)
    faults.point("publish.before_rename")


def test_a_named_errno_is_raised_at_its_point_alone(monkeypatch):
    monkeypatch.setenv(faults.VARIABLE, "convert.before_sync:ENOSPC")
    faults.point("publish.before_rename")
    with pytest.raises(OSError, match=r"No space left.*convert\.before_sync"):
        faults.point("convert.before_sync")


def test_a_fault_with_a_folder_fires_once(monkeypatch, tmp_path):
    monkeypatch.setenv(faults.VARIABLE, f"a.b:EIO:{tmp_path}")
    with pytest.raises(OSError, match="Input/output error"):
        faults.point("a.b")
    faults.point("a.b")
    assert (tmp_path / "a.b.fired").exists()


def test_kill_ends_the_process_at_once():
    code = "from trainfeed.core import faults; faults.point('a.b'); print('alive')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={faults.VARIABLE: "a.b:kill", "PYTHONPATH": "include"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (-9, b"")
