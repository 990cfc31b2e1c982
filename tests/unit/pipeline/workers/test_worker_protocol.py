"""The messages between a worker and its parent."""

import os
import pickle

import pytest

from trainfeed.errors import PreprocessError
from trainfeed.pipeline.workers.protocol import (
    PROGRESS_BYTES,
    JobCrashed,
    JobDone,
    JobFailed,
    JobReport,
    JobStarted,
    LastSeen,
    RangeDone,
    WorkerPlace,
)


@pytest.fixture
def place():
    with os.fdopen(os.memfd_create("progress"), "r+b") as memory:
        memory.truncate(PROGRESS_BYTES)
        place = WorkerPlace(memory.fileno())
        yield place
        place.close()


def test_a_worker_is_seen_in_a_range_then_in_a_batch_then_at_a_record(place):
    place.begin(3)
    assert place.read() == LastSeen(range_index=3, first=None, last=None, record=None)
    place.batch("kafka:clicks/0", 10, 19)
    assert place.read() == LastSeen(range_index=3, first=10, last=19, record=None)
    place.record(12)
    assert place.read() == LastSeen(range_index=3, first=10, last=19, record=12)
    place.begin(4)
    assert place.read() == LastSeen(range_index=4, first=None, last=None, record=None)


@pytest.mark.parametrize(
    ("report", "ends"),
    [
        (JobStarted(), False),
        (RangeDone(3), False),
        (JobDone({"samples": 1}), True),
        (JobCrashed("Traceback"), True),
    ],
)
def test_a_report_travels_and_says_whether_it_ends_the_job(report, ends):
    assert pickle.loads(pickle.dumps(report)) == report
    assert isinstance(report, JobReport) is ends


def test_a_job_that_fails_reports_its_error():
    report = pickle.loads(pickle.dumps(JobFailed(PreprocessError("record 3"))))
    assert isinstance(report, JobReport)
    assert str(report.error) == "record 3"
