"""Ranks as processes of this machine: all of them or none."""

import errno

import pytest

from trainfeed.errors import JobRejectedError
from trainfeed.training import _local
from trainfeed.training._job import JobSpec
from trainfeed.training.runtime import REJECTED


class Rank:
    def __init__(self):
        self.ended = False

    def terminate(self):
        self.ended = True

    def wait(self, timeout=None):
        assert self.ended, timeout


def test_ranks_that_were_started_before_one_could_not_be_are_ended(tmp_path, monkeypatch):
    started = []

    def scarce(*_):
        if len(started) == 2:
            raise OSError(errno.EAGAIN, "no more processes")
        started.append(Rank())
        return started[-1]

    monkeypatch.setattr(_local, "_start", scarce)
    job = JobSpec.model_construct(name="job", ranks=3)
    with pytest.raises(OSError, match="no more processes"):
        _local.run_local(job, tmp_path)
    assert [rank.ended for rank in started] == [True, True]


def test_a_rank_that_ends_like_one_that_refuses_its_job_and_says_nothing(tmp_path, monkeypatch):
    class Silent(Rank):
        def wait(self, timeout=None):  # noqa: ARG002 - as processes have it
            return REJECTED

    monkeypatch.setattr(_local, "_start", lambda *_: Silent())
    job = JobSpec.model_construct(name="job", ranks=1)
    with pytest.raises(JobRejectedError, match=r"job job, rank 0: $"):
        _local.run_local(job, tmp_path)
