"""A job's name is a function of what it reads and how, the same in every release."""

from __future__ import annotations

import pytest

from trainfeed.core import canonical_json
from trainfeed.training.jobs import JobSpec

CODE = "ce43c06c3607719c88774724d054e96f25115d33332d5aba6abfcb7d84f511f8"
# Names, as the release before launchers on clusters gave them.
OF_BEFORE = {
    "clicks-2024-03-01-ead65564699a": {
        "dataset": "clicks",
        "interval": "2024-03-01",
        "entry": "train:main",
        "code": CODE,
        "seed": 7,
        "ranks": 1,
        "contents": "a",
    },
    "flights-2013-01-03t05-b95287afbe38": {
        "dataset": "flights",
        "interval": "2013-01-03T05",
        "entry": "train:fit",
        "code": CODE,
        "seed": 0,
        "ranks": 2,
        "contents": "bc",
    },
    "a_long_name_of_a_data_set-2013-w01-eec2a9e1f1d5": {
        "dataset": "a_long_name_of_a_data_set",
        "interval": "2013-W01",
        "entry": "learn:run",
        "code": "997d1522012709106d3637033cb394de00b63260b30d9284848a3850b39b92b4",
        "seed": 1 << 63,
        "ranks": 16,
        "contents": "ddd",
    },
}
FILE_OF_BEFORE = (
    b'{"code":"%b","dataset":"clicks","entry":"train:main","folder":".","interval":'
    b'"2024-03-01","name":"clicks-2024-03-01-ead65564699a","ranks":1,"seed":7,"versions":[{'
    b'"content_digest":"%b","generation":"g0001","interval":"2024-03-01","manifest_sha256":"%b",'
    b'"path":"clicks/versions/2024-03-01/g0001"}]}'
) % (CODE.encode(), b"a" * 64, b"e" * 64)


def version(content, interval="2024-03-01"):
    return {
        "interval": interval,
        "generation": "g0001",
        "path": f"clicks/versions/{interval}/g0001",
        "content_digest": content * 64,
        "manifest_sha256": "e" * 64,
    }


def job(*, contents="a", **fields):
    versions = [version(content) for content in contents]
    base = {**OF_BEFORE["clicks-2024-03-01-ead65564699a"], **fields, "folder": "."}
    del base["contents"]
    return JobSpec.named(**base, versions=versions)


@pytest.mark.parametrize("name", OF_BEFORE)
def test_jobs_keep_the_names_of_before_so_that_finished_ones_are_adopted(name):
    assert job(**OF_BEFORE[name]).name == name


def test_a_job_file_of_before_is_read_and_written_byte_by_byte(tmp_path):
    (tmp_path / "job.json").write_bytes(FILE_OF_BEFORE)
    found = JobSpec.read(tmp_path / "job.json")
    assert canonical_json.dumps(found.to_json()) == FILE_OF_BEFORE
    assert found.identity.startswith("ead65564699a")


@pytest.mark.parametrize(
    "change",
    [
        {"image": "r/i@sha256:" + "0" * 64},
        {"command": ["python", "train.py"]},
        {"environment": {"A": "1"}},
        {"seed": 8},
        {"ranks": 2},
        {"contents": "b"},
        {"code": "0" * 64},
        {"entry": "train:other"},
    ],
)
def test_whatever_decides_the_result_makes_another_job(change):
    assert job(**change).identity != job().identity
    assert job(**change).name != job().name


def test_an_attempt_and_where_the_versions_lie_make_no_other_job():
    again = job(attempt=2)
    assert (again.name, again.identity) == (job().name, job().identity)
    assert again.to_json() != job().to_json()


def test_what_is_not_set_is_not_written():
    written = job().to_json()
    assert not {"skipped", "image", "command", "environment", "attempt"} & set(written)
    assert JobSpec.model_validate(written) == job()
