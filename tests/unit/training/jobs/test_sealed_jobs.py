"""Files of jobs are sealed and say whose they are; those of before are read below their root."""

import shutil

import pytest

from tests.support.roots import as_before, reseal, unseal
from tests.unit.training.jobs.test_job_spec import job
from trainfeed.errors import FormatError, JobRejectedError
from trainfeed.training.jobs import JobLook, JobRecord, JobRemoval, JobState
from trainfeed.versions import DatasetFolder, init_root
from trainfeed.versions.training_marks import launched_job

ENDED = JobLook(JobState.FAILED, "it ran out of memory")


@pytest.fixture
def root(tmp_path):
    init_root(tmp_path / "root")
    return tmp_path / "root"


@pytest.fixture
def records(root):
    """Two jobs of an interval, each with an attempt that has failed, and a removal."""
    made = []
    for contents in ("a", "b"):
        spec = job(contents=contents)
        record = JobRecord(DatasetFolder(root, "clicks").training(spec.interval, spec.name))
        record.write(spec)
        assert record.claim(spec, f"why {contents}")
        record.mark_created(1, f"uid-{contents}")
        record.end(1, ENDED)
        JobRemoval("2026-01-01T00:00:00Z", "keep_days: 30").write(record.home)
        made.append(record)
    return made


def test_files_are_read_as_written(records):
    for record, contents in zip(records, "ab", strict=True):
        attempt = record.attempt(1)
        assert (record.job(), attempt.job) == (job(contents=contents),) * 2
        assert (attempt.why, attempt.is_created, attempt.ended) == (f"why {contents}", True, ENDED)
        assert JobRemoval.read(record.home).why == "keep_days: 30"
        assert [each["generation"] for each in launched_job(record.home).versions] == ["g0001"]


FILES = {
    "job.json": lambda record: record.job(),
    "attempts/0001.json": lambda record: record.attempt(1),
    "attempts/0001.created.json": lambda record: record.attempt(1),
    "attempts/0001.ended.json": lambda record: record.attempt(1),
    "removed.json": lambda record: JobRemoval.read(record.home),
}


@pytest.mark.parametrize("name", FILES)
def test_a_changed_digit_and_the_file_of_another_job_are_refused(records, name):
    record, other = records
    path = record.home / name
    data = path.read_bytes()
    at = next(place for place, byte in enumerate(data) if byte in b"0123456789")
    changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
    for content in (changed, (other.home / name).read_bytes()):
        path.write_bytes(content)
        with pytest.raises((JobRejectedError, FormatError)) as caught:
            FILES[name](record)
        assert str(path) in str(caught.value)
        if name == "job.json":
            with pytest.raises(FormatError):
                launched_job(record.home)
    path.write_bytes(data)
    FILES[name](record)


def test_a_note_of_an_attempt_in_the_place_of_another_is_refused(records):
    record, _ = records
    attempts = record.home / "attempts"
    record.claim(job(contents="a", attempt=2), "again")
    shutil.copy(attempts / "0001.json", attempts / "0002.json")
    with pytest.raises(JobRejectedError):
        record.attempt(2)
    shutil.copy(attempts / "0001.created.json", attempts / "0001.cancelled.json")
    with pytest.raises(JobRejectedError):
        record.attempt(1)


@pytest.mark.parametrize("name", FILES)
def test_files_of_before_are_read_and_others_without_a_seal_are_damaged(root, records, name):
    as_before(root)
    record, _ = records
    expected = FILES[name](record)
    init_root(root)
    assert FILES[name](record) == expected
    reseal_of_before(record.home / name)
    with pytest.raises((JobRejectedError, FormatError)):
        FILES[name](record)


def reseal_of_before(path):
    """Change a file as a trainfeed of before would write it: without a seal."""
    if b'digest": ' in path.read_bytes():
        reseal(path, more=1)
        unseal(path)
    else:
        path.write_bytes(path.read_bytes().replace(b"{", b'{"more":1,', 1))
