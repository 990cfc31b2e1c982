"""Ranks as processes of this machine: all of them or none."""

import errno
import os
import signal
from pathlib import Path

import pytest

from trainfeed.core.process_ties import has_ended
from trainfeed.errors import JobFailedError, JobKilledError, JobRejectedError, Outcome
from trainfeed.training.jobs import REJECTED, RETRYABLE, JobRecord, JobRoots, JobSpec, LocalLauncher
from trainfeed.training.jobs import local as _local_job
from trainfeed.training.jobs.local import Ended, ended_error
from trainfeed.training.jobs.rank_process import RankProcess
from trainfeed.versions.bucket_root import BUCKET, FOLLOWED, FollowedBucket


def shells(*scripts):
    """Return what starts a shell in the place of each rank."""

    def start(job, record, rank, roots):
        return RankProcess(
            ["/bin/sh", "-c", scripts[rank]],
            home=record.home,
            rank=rank,
            environment={},
            log=record.log(rank),
        )

    return start


def test_ranks_that_were_started_before_one_could_not_be_are_ended(tmp_path, monkeypatch):
    started = []

    def scarce(*arguments):
        if len(started) == 2:
            raise OSError(errno.EAGAIN, "no more processes")
        started.append(shells(*["sleep 600"] * 3)(*arguments))
        return started[-1]

    monkeypatch.setattr(_local_job, "_start", scarce)
    job = JobSpec.model_construct(name="job", environment={}, ranks=3)
    with pytest.raises(OSError, match="no more processes"):
        LAUNCHER.start(job, tmp_path)
    assert len(started) == 2
    assert all(has_ended(rank.pid) for rank in started)


def test_a_rank_that_cannot_be_watched_is_ended(tmp_path, monkeypatch):
    def refuse(pid):
        pids.append(pid)
        raise OSError(errno.EMFILE, "too many open files")

    pids, fds = [], sorted(Path("/proc/self/fd").iterdir())
    monkeypatch.setattr(os, "pidfd_open", refuse)
    with pytest.raises(OSError, match="too many open files"):
        RankProcess(
            ["/bin/sleep", "600"], home=tmp_path, rank=0, environment={}, log=tmp_path / "log"
        )
    (pid,) = pids
    assert has_ended(pid)
    assert sorted(Path("/proc/self/fd").iterdir()) == fds


def test_a_rank_that_ends_like_one_that_refuses_its_job_and_says_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(_local_job, "_start", shells(f"exit {REJECTED}"))
    job = JobSpec.model_construct(name="job", environment={}, ranks=1)
    with pytest.raises(JobRejectedError, match=r"job job, rank 0: \(the log is empty"):
        LAUNCHER.start(job, tmp_path)


LAUNCHER = LocalLauncher(JobRoots(None, None))
JOB = JobSpec.model_construct(name="clicks-1", entry="train:main", environment={}, ranks=1)


@pytest.mark.parametrize("is_in_bucket", [False, True])
def test_a_rank_gets_keys_of_object_stores_only_if_its_root_is_in_one(
    tmp_path, monkeypatch, is_in_bucket
):
    if is_in_bucket:
        FOLLOWED.write_once(tmp_path / BUCKET, FollowedBucket("s3://lake/sets", "an id", False))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary")
    monkeypatch.setattr(_local_job, "RankProcess", lambda *_, environment, **__: environment)
    found = _local_job._start(JOB, JobRecord(tmp_path), 0, JobRoots(tmp_path, tmp_path))
    assert ("AWS_SECRET_ACCESS_KEY" in found) is is_in_bucket


@pytest.fixture
def error_of(tmp_path):
    """What the end of a rank means: its status, and what its log says."""

    def make(status, said=""):
        log = tmp_path / "rank-0.log"
        log.write_text(said)
        return ended_error(JOB, Ended(0, status, log))

    return make


@pytest.mark.parametrize(
    ("number", "meaning"),
    [
        (signal.SIGKILL, r"signal 9 \(SIGKILL\): killed; as a rule the kernel's, because memory"),
        (signal.SIGTERM, r"signal 15 \(SIGTERM\): asked to end, by an operator"),
        (signal.SIGINT, r"signal 2 \(SIGINT\): interrupted"),
        (signal.SIGHUP, r"signal 1 \(SIGHUP\): its terminal"),
    ],
)
def test_a_rank_that_was_killed_is_tried_again_and_the_message_says_what_the_signal_means(
    error_of, number, meaning
):
    error = error_of(-number)
    assert type(error) is JobKilledError
    assert error.outcome is Outcome.RETRY
    assert error.args[0].startswith("job clicks-1, rank 0 was ended by signal ")
    with pytest.raises(JobKilledError, match=meaning):
        raise error


def test_an_empty_log_is_said_to_be_empty(error_of):
    assert str(error_of(-9)).endswith(
        ":\n(the log is empty: the rank wrote nothing before it ended)"
    )


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE])
def test_a_rank_whose_own_code_crashed_is_not_tried_again(error_of, number):
    error = error_of(-number, "Fatal Python error")
    assert type(error) is JobFailedError
    assert error.outcome is Outcome.FAIL
    assert f"rank 0 ended with signal {number:d} ({number.name}): " in str(error)
    assert str(error).endswith("fix train:main and run the training again (in Airflow: clear the"
                               " task):\nFatal Python error")  # fmt: skip


def test_a_signal_without_a_name_is_named_by_its_number(error_of):
    assert "ended with signal 61;" in str(error_of(-61))


def test_a_rank_that_met_what_may_pass_is_tried_again(error_of):
    error = error_of(RETRYABLE, "Traceback\nStorageError: /pfs: retry")
    assert type(error) is JobKilledError
    assert str(error).endswith("StorageError: /pfs: retry")


def test_when_others_fail_because_a_rank_was_killed_that_one_is_told(tmp_path, monkeypatch):
    # Rank 0 fails when rank 1 is gone, and both have ended when the launcher looks.
    killed = "kill -9 $$"
    failing = f"until [ -e {tmp_path}/gone ]; do sleep 0.01; done; exit 1"
    monkeypatch.setattr(_local_job, "_start", shells(failing, killed))
    real = _local_job.wait_for_end

    def late(ranks, timeout_s=None):
        real(ranks[-1:], timeout_s)
        (tmp_path / "gone").touch()
        real(ranks[:1], timeout_s)
        return ranks[:1]

    monkeypatch.setattr(_local_job, "wait_for_end", late)
    with pytest.raises(JobKilledError, match="rank 1 was ended by signal 9"):
        LAUNCHER.start(JOB.model_copy(update={"ranks": 2}), tmp_path)
