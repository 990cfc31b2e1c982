"""The result proves the success of a job: its files are those that rank 0 has written."""

from __future__ import annotations

import json

import pytest

from trainfeed.errors import ChecksumError, FormatError, JobRejectedError, NotFoundError
from trainfeed.training.jobs import RESULT_FILE, JobRecord, JobResult, JobRoots, JobVersion


@pytest.fixture
def home(tmp_path):
    (tmp_path / "output" / "parts").mkdir(parents=True)
    (tmp_path / "output" / "model.npz").write_bytes(b"weights")
    (tmp_path / "output" / "parts" / "0").write_bytes(b"")
    return tmp_path


def result(home, metrics=None):
    return JobResult.of_output("job", "1" * 64, metrics or {"auc": 0.7}, home / "output")


def test_a_result_is_read_as_it_was_written(home):
    written = result(home)
    assert written.write(home)
    assert JobRecord(home).result() == written
    assert sorted(written.files) == ["model.npz", "parts/0"]
    assert written.files["model.npz"].size == 7
    written.verify(home)


def test_of_two_processes_of_rank_0_the_first_has_written_the_result(home):
    assert result(home).write(home)
    assert not result(home, {"auc": 0.1}).write(home)
    assert JobRecord(home).result().metrics == {"auc": 0.7}


def test_a_model_that_was_changed_or_removed_is_no_success(home):
    found = result(home)
    (home / "output" / "model.npz").write_bytes(b"weighty")
    with pytest.raises(ChecksumError, match="the file was changed after rank 0 had ended"):
        found.verify(home)
    (home / "output" / "model.npz").unlink()
    with pytest.raises(NotFoundError):
        found.verify(home)


def test_no_changed_byte_of_a_result_is_read(home):
    result(home).write(home)
    data = (home / RESULT_FILE).read_bytes()
    for place in range(len(data)):
        changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        (home / RESULT_FILE).write_bytes(changed)
        with pytest.raises(FormatError):
            JobRecord(home).result()


GOOD = {"metrics": {}, "files": {}, "job": "a", "identity": "b"}


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "3",
        "{",
        *(
            json.dumps(GOOD | change)
            for change in (
                {"metrics": 3.0},
                {"files": []},
                {"files": {"a": {"size": -1, "sha256": ""}}},
                {"files": {"a": {"size": True, "sha256": ""}}},
                {"files": {"../a": {"size": 1, "sha256": ""}}},
                {"files": {"/a": {"size": 1, "sha256": ""}}},
                {"job": 3},
                {"identity": None},
            )
        ),
    ],
)
def test_what_is_no_result_is_refused(home, text):
    (home / RESULT_FILE).write_text(text)
    with pytest.raises(FormatError):
        JobResult.read(home / RESULT_FILE)


def test_a_job_without_a_result_has_none(home):
    assert JobRecord(home).result() is None


def version_at(path):
    return JobVersion(
        interval="a", generation="g0001", path=path, content_digest="", manifest_sha256=""
    )


def test_a_relative_path_without_a_root_names_the_variable():
    with pytest.raises(JobRejectedError, match="TRAINFEED_JOB_ROOT"):
        JobRoots(None, None).version(version_at("a/b"))


def test_an_absolute_path_is_refused_also_below_the_root(home):
    with pytest.raises(JobRejectedError, match="relative to TRAINFEED_JOB_ROOT"):
        JobRoots(home, home).version(version_at(str(home / "a")))
