"""Trainers that do not behave: what becomes of the job, of its log, and of what it has started."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from tests.unit.training.points import spec
from trainfeed.core.process_ties import has_ended
from trainfeed.errors import JobFailedError, JobKilledError, JobRejectedError
from trainfeed.functions import digest_of_texts, training_texts
from trainfeed.training.jobs import JobRecord, JobRoots, LocalLauncher
from trainfeed.training.jobs import local as _local_job
from trainfeed.training.jobs import rank_process as _bounded_log

ROOT = Path(__file__).parents[3]
HEAD = """
import os, signal, subprocess, sys, threading, time
from pathlib import Path

"""


@pytest.fixture
def launch(tmp_path):
    """Write ``main`` of a trainer, and run it as a local job."""

    def run(body, ranks=1):
        code, home = tmp_path / "code", tmp_path / "home"
        code.mkdir(exist_ok=True)
        home.mkdir(exist_ok=True)
        text = HEAD + "def main(job):\n" + textwrap.indent(textwrap.dedent(body), "    ")
        (code / "train.py").write_text(text)
        job = spec(ranks=ranks, code=digest_of_texts(training_texts(code)))
        record = JobRecord(home)
        record.write(job)
        LocalLauncher(JobRoots(tmp_path, code)).start(job, home)
        return record

    return run


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


def all_gone(pids):
    return all(has_ended(int(pid)) for pid in pids)


@pytest.mark.parametrize("statement", ["raise SystemExit", "os.fork(); os._exit(0)"])
def test_an_end_with_status_0_and_without_a_result_is_a_failure(launch, statement):
    with pytest.raises(JobFailedError, match=r"ended without metrics; see .*rank-0\.log"):
        launch(f"{statement}\n")


def test_a_rank_that_ignores_sigterm_is_killed_when_another_one_fails(launch, home, monkeypatch):
    monkeypatch.setattr(_local_job, "_GRACE_S", 0.3)
    body = """
    (job.output / f"pid-{job.rank}").write_text(str(os.getpid()))
    if job.rank == 1:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        (job.output / "ready").touch()
        threading.Event().wait()
    while not (job.output / "ready").exists():
        time.sleep(0.01)
    raise ValueError("rank 0 fails")
    """
    with pytest.raises(JobFailedError, match="rank 0 fails"):
        launch(body, ranks=2)
    assert all_gone((home / "output" / f"pid-{rank}").read_text() for rank in (0, 1))


def test_a_trainer_that_hangs_ends_with_its_launch(launch, home, monkeypatch):
    monkeypatch.setattr(_local_job, "_GRACE_S", 0.3)
    real = _local_job.wait_for_end

    def interrupted(ranks):
        # As a scheduler ends a task that takes too long: by an exception while it waits.
        while not (home / "output" / "ready").exists():
            assert not real(ranks, 0.05)
        raise TimeoutError("the task takes too long")

    monkeypatch.setattr(_local_job, "wait_for_end", interrupted)
    body = """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    (job.output / "pid").write_text(str(os.getpid()))
    (job.output / "ready").touch()
    threading.Event().wait()
    """
    with pytest.raises(TimeoutError, match="takes too long"):
        launch(body)
    assert all_gone([(home / "output" / "pid").read_text()])


def test_a_flood_of_output_leaves_a_bounded_log_with_its_beginning_and_its_end(
    launch, home, monkeypatch
):
    monkeypatch.setattr(_bounded_log, "MAX_BYTES", 1 << 20)
    monkeypatch.setattr(_bounded_log, "_TAIL_BYTES", 1 << 19)
    body = r"""
    print("the first line")
    for number in range(200):
        sys.stdout.write(f"{number:06d}" + "x" * 99_993 + "\n")
    raise ValueError("the last line")
    """
    with pytest.raises(JobFailedError, match="ValueError: the last line"):
        launch(body)
    log = (home / "rank-0.log").read_bytes()
    assert len(log) <= 1 << 20
    assert b"the first line" in log[:1000]
    assert log.count(b"bytes of this log were left out here") == 1
    assert b"000199x" in log


FORKS = """
pid = os.fork()
if pid == 0:
    {first}
    (job.output / "making").write_text(str(os.getpid()))
    (job.output / "making").rename(job.output / "child")
    {then}
while not (job.output / "child").exists():
    time.sleep(0.01)
"""


LEAVES = "os.setsid(); os.fork() and os._exit(0)"


@pytest.mark.parametrize(
    ("first", "end"),
    [
        ("pass", "return {'a': 1.0}"),
        ("os.setsid()", "os.kill(os.getpid(), 9)"),
        (LEAVES, "return {'a': 1.0}"),
        (LEAVES, "1 / 0"),
    ],
)
def test_nothing_that_a_trainer_has_forked_outlives_it(launch, home, first, end):
    then = "signal.signal(signal.SIGTERM, signal.SIG_IGN); threading.Event().wait()"
    body = FORKS.format(first=first, then=then) + f"{end}\n"
    if "return" in end:
        assert launch(body).result().metrics == {"a": 1.0}
    else:
        with pytest.raises((JobKilledError, JobFailedError)):
            launch(body)
    assert all_gone([(home / "output" / "child").read_text()])


def test_a_child_that_holds_the_output_open_does_not_hold_the_job(launch):
    body = """
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    return {"a": 1.0}
    """
    assert launch(body).result().metrics == {"a": 1.0}


def test_a_model_that_is_changed_after_the_result_is_found_out(launch, home):
    body = """
    (job.output / "model").write_text("good")
    return {"a": 1.0}
    """
    result = launch(body).result()
    (home / "output" / "model").write_text("bad")
    with pytest.raises(Exception, match="expected 4 bytes with SHA-256"):
        result.verify(home)


def test_code_that_is_changed_by_the_training_itself_is_refused_by_the_next_rank(launch, tmp_path):
    body = """
    if job.rank == 1:
        return
    Path(__file__).write_text("changed")
    return {"a": 1.0}
    """
    launch(body)
    code = tmp_path / "code"
    job = spec(code="0" * 64)
    record = JobRecord(tmp_path / "other")
    record.home.mkdir()
    record.write(job)
    with pytest.raises(JobRejectedError, match="it changed after the launch; nothing was run"):
        LocalLauncher(JobRoots(tmp_path, code)).start(job, record.home)


PROGRAM = """
import sys
from pathlib import Path
from trainfeed.training.jobs import JobRecord, JobRoots, LocalLauncher

home, code = map(Path, sys.argv[1:])
LocalLauncher(JobRoots(home, code)).start(JobRecord(home).job(), home)
"""


def test_what_a_killed_launcher_has_left_is_ended_by_the_next_launch(launch, tmp_path, home):
    body = """
    if (job.output / "left").exists():
        left = (job.output / "left").read_text()
        try:
            assert not Path(f"/proc/{left}/environ").read_bytes(), "it still runs"
        except OSError:
            pass
        return {"a": 1.0}
    """
    child = FORKS.format(first="os.setsid()", then="threading.Event().wait()")
    body = textwrap.dedent(body) + child + "threading.Event().wait()\n"
    # The first launch is a process of its own, which is killed while the trainer hangs.
    real = LocalLauncher.start
    try:
        LocalLauncher.start = lambda *_: None
        launch(body)
    finally:
        LocalLauncher.start = real
    command = [sys.executable, "-c", PROGRAM, str(home), str(tmp_path / "code")]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'include'}"}
    launcher = subprocess.Popen(command, env=environment)
    child = home / "output" / "child"
    while not child.exists():
        threading.Event().wait(0.02)
        assert launcher.poll() is None
    left = int(child.read_text())
    launcher.send_signal(signal.SIGKILL)
    launcher.wait()
    assert not has_ended(left)
    child.rename(home / "output" / "left")
    assert launch(body).result().metrics == {"a": 1.0}
    assert all_gone([left])


def test_user_code_sees_no_credentials(launch, monkeypatch):
    for name in ("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "AWS_SECRET_ACCESS_KEY", "KUBECONFIG"):
        monkeypatch.setenv(name, "canary-of-the-test")
    monkeypatch.setenv("TRAINFEED_CONNECTIONS", "/canary-of-the-test")
    body = """
    assert "canary" not in str(dict(os.environ)), dict(os.environ)
    return {"a": 1.0}
    """
    launch(body)
