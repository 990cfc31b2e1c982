"""The runtime without arguments: the environment of a pod says which rank of which job it is."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from tests.unit.training.points import spec
from trainfeed.errors import JobRejectedError
from trainfeed.functions import digest_of_texts, training_texts
from trainfeed.training.cluster_rank import cluster_rank
from trainfeed.training.jobs import EXHAUSTED, REJECTED, JobRecord

ROOT = Path(__file__).parents[4]


@pytest.fixture
def pod(tmp_path):
    """Start the runtime as a pod does, for a job of two ranks."""
    code, home = tmp_path / "code", tmp_path / "home"
    code.mkdir()
    home.mkdir()

    def start(body="return {'a': 1.0}", *, is_changed=False, **variables):
        text = "import os, signal, threading\n\n\ndef main(job):\n"
        (code / "train.py").write_text(text + textwrap.indent(textwrap.dedent(body), "    ") + "\n")
        JobRecord(home).write(spec(ranks=2, code=digest_of_texts(training_texts(code))))
        if is_changed:
            (code / "train.py").write_text("changed")
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{ROOT}:{ROOT / 'include'}",
            "TRAINFEED_JOB": str(home),
            "TRAINFEED_JOB_ROOT": str(tmp_path),
            "TRAINFEED_JOB_CODE": str(code),
            **variables,
        }
        known = {name: value for name, value in environment.items() if value is not None}
        command = [sys.executable, "-m", "trainfeed.training.runtime"]
        return subprocess.Popen(
            command, env=known, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    return start


def ended(process):
    said, complained = process.communicate(timeout=100)
    return process.returncode, said, complained


INDEXED_JOB = {"JOB_COMPLETION_INDEX": "1", "RANK": "1", "WORLD_SIZE": "2"}
PYTORCH_JOB = {
    "RANK": "0",
    "WORLD_SIZE": "2",
    "MASTER_ADDR": "job-worker-0",
    "MASTER_PORT": "23456",
}
PADDLE_JOB = {"PADDLE_TRAINER_ID": "1", "PADDLE_TRAINERS_NUM": "2", "PADDLE_TRAINERS": "2"}


@pytest.mark.parametrize("variables", [INDEXED_JOB, PYTORCH_JOB, PADDLE_JOB])
def test_every_kind_of_cluster_names_the_rank_and_the_training_finds_all_names(
    pod, tmp_path, variables
):
    rank = int(next(iter(variables.values())))
    body = f"""
    names = ("RANK", "PADDLE_TRAINER_ID")
    assert [os.environ[name] for name in names] == ["{rank}"] * 2
    names = ("WORLD_SIZE", "PADDLE_TRAINERS_NUM", "PADDLE_TRAINERS")
    assert [os.environ[name] for name in names] == ["2"] * 3
    assert (job.rank, job.world_size, os.environ["LOCAL_RANK"]) == ({rank}, 2, "0")
    assert os.environ["PADDLE_JOB_NAME"] == job.spec.name
    print("meets at", job.rendezvous)
    return {{"a": 1.0}}
    """
    status, said, _ = ended(pod(body, **variables))
    assert status == 0, said
    # The log of the job is that of the pod, too.
    assert said == (tmp_path / "home" / f"rank-{rank}.log").read_text()
    assert ("meets at env://" in said) == ("MASTER_ADDR" in variables)
    assert (tmp_path / "home" / "result.json").exists() == (rank == 0)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({}, "expected one of RANK, JOB_COMPLETION_INDEX, PADDLE_TRAINER_ID from 0 to 1"),
        ({"RANK": "2"}, "from 0 to 1, the ranks of job"),
        ({"RANK": "0", "JOB_COMPLETION_INDEX": "1"}, "expected one number from 0 on in RANK, JOB_"),
        ({"RANK": "-1"}, "expected one number from 0 on in RANK"),
        ({"RANK": "one"}, "expected one number from 0 on in RANK"),
        ({"RANK": "0", "WORLD_SIZE": "4"}, "expected 2 ranks as job points-"),
        ({"RANK": "0", "TRAINFEED_JOB": None}, "expected TRAINFEED_JOB to name the folder"),
        ({"RANK": "0", "TRAINFEED_JOB": "home"}, "expected TRAINFEED_JOB to name the folder"),
        ({"RANK": "0", "TRAINFEED_JOB": "/nowhere"}, "is not a job specification"),
    ],
)
def test_an_environment_that_names_no_rank_of_a_job_is_refused(
    tmp_path, monkeypatch, variables, message
):
    JobRecord(tmp_path).write(spec(ranks=2))
    monkeypatch.setenv("TRAINFEED_JOB", str(tmp_path))
    for name, value in variables.items():
        monkeypatch.setenv(name, value or "")
    with pytest.raises(JobRejectedError, match=message):
        cluster_rank()


def test_a_pod_that_does_not_say_where_the_code_is_runs_nothing(pod, tmp_path):
    process = pod("(job.output / 'ran').touch()", RANK="0", TRAINFEED_JOB_CODE=None)
    status, said, _ = ended(process)
    assert status == REJECTED
    assert "expected TRAINFEED_JOB_CODE to name the folder" in said
    assert not (tmp_path / "home" / "output" / "ran").exists()


def test_a_process_without_arguments_and_variables_says_what_it_wants(pod):
    status, _, complained = ended(pod(TRAINFEED_JOB=None))
    assert (status, "expected TRAINFEED_JOB to name the folder" in complained) == (REJECTED, True)


def test_code_that_nobody_has_launched_is_refused(pod):
    status, said, _ = ended(pod(is_changed=True, RANK="0"))
    assert (status, "it changed after the launch; nothing was run" in said) == (REJECTED, True)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [("os.kill(os.getpid(), 9)", 137), ("os._exit(3)", 3)],
)
def test_the_exit_status_says_how_the_rank_ended(pod, statement, expected):
    assert ended(pod(statement, RANK="0"))[0] == expected


def test_a_rank_whose_cluster_counts_no_restarts_refuses_the_one_that_is_too_many(pod, tmp_path):
    limit = {"RANK": "1", "TRAINFEED_RETRIES": "1"}
    for _ in range(2):
        assert ended(pod("os.kill(os.getpid(), 9)", **limit))[0] == 137
    status, _, complained = ended(pod("(job.output / 'ran').touch()", **limit))
    assert status == EXHAUSTED
    assert "start 3 of rank 1 of job points-" in complained
    assert "train.retries is 1; nothing was run" in complained
    assert not (tmp_path / "home" / "output" / "ran").exists()
    # Another rank has starts of its own.
    assert ended(pod("os._exit(3)", RANK="0", TRAINFEED_RETRIES="1"))[0] == 3


def test_a_rank_whose_cluster_counts_restarts_itself_counts_none(pod, tmp_path):
    for _ in range(3):
        assert ended(pod("os._exit(3)", RANK="0"))[0] == 3
    assert not (tmp_path / "home" / "attempts").exists()


def test_a_pod_that_is_asked_to_end_asks_its_rank(pod, tmp_path):
    body = """
    (job.output / "ready").touch()
    threading.Event().wait()
    """
    process = pod(body, RANK="0")
    while not (tmp_path / "home" / "output" / "ready").exists():
        assert process.poll() is None
        threading.Event().wait(0.02)
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 128 + signal.SIGTERM
