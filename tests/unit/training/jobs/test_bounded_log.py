"""The log of a rank: nothing of it is lost when the system takes a part of a write."""

from __future__ import annotations

import os

from trainfeed.training.jobs import rank_process as _bounded_log
from trainfeed.training.jobs.rank_process import BoundedLog


def test_bytes_of_which_the_system_takes_a_part_are_written_whole(tmp_path, monkeypatch):
    whole = os.pwrite
    monkeypatch.setattr(_bounded_log.os, "pwrite", lambda fd, data, at: whole(fd, data[:3], at))
    log = BoundedLog(tmp_path / "log")
    for line in (b"first line\n", b"second line\n"):
        log.write(line)
    log.close()
    assert (tmp_path / "log").read_bytes() == b"first line\nsecond line\n"
