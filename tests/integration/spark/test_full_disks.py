"""Local disks of executors that are full: when the function writes, and when the shuffle does."""

from __future__ import annotations

import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.integration.spark.running import running, send
from trainfeed.errors import QuotaExceededError

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]
SIZE = 64 << 20


@pytest.fixture
def disk(tmp_path):
    """A disk in memory of 64 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "none", place]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small file system")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def fill(disk):
    filler = disk / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 12))
    return filler


@pytest.mark.parametrize("point", ["spark.before_function", "spark.before_rows"])
def test_a_full_disk_is_named_and_the_next_attempt_builds(
    clicks, tmp_path, disk, monkeypatch, point
):
    here = clicks.at(tmp_path / "here", "local")
    here.build()
    conf = {"spark.local.dir": str(disk)}
    there = clicks.in_groups(3).at(tmp_path / "there", "spark", **conf)
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    monkeypatch.setenv("TRAINFEED_FAULTS", f"{point}:stop:{tmp_path}")
    with running(there, tmp_path) as build:
        (worker,) = build.until_stopped()
        filler = fill(disk)
        send(worker, signal.SIGCONT)
        with pytest.raises(QuotaExceededError) as caught:
            build.finish()
    assert str(disk) in str(caught.value)
    assert list(Path(there.env.root).glob("clicks/versions/*/g*")) == []
    filler.unlink()
    there.build()
    assert there.digest == here.digest
