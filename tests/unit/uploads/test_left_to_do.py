"""What a run of ``uploads.<data set>`` finds on storage: receipts without an event, and builds."""

import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.uploads.labelled import DAY, csv_of
from trainfeed.errors import ChecksumError, FormatError
from trainfeed.uploads import interval_uploads, left_to_do, mark_announced, unannounced

NEXT = "2024-03-02"
END = datetime(2024, 3, 2, tzinfo=UTC)


def numbers(project):
    return [receipt.number for receipt in unannounced(project.folder)]


def put(project, *names, day=DAY):
    for name in names:
        project.put(name, csv_of([(1, 1, None)]), day=day)
    project.check()


def ways(project, now):
    found = left_to_do(project.spec, project.folder, now)
    return {
        name: [each.interval for each in intervals]
        for name, intervals in vars(found).items()
        if intervals
    }


def test_a_receipt_has_no_event_until_it_is_marked_and_then_has_one(labelled):
    assert numbers(labelled) == []
    put(labelled, "a.csv", "b.csv")
    assert numbers(labelled) == [1, 2]
    mark_announced(labelled.folder, 2)
    assert numbers(labelled) == []
    put(labelled, "c.csv")
    assert numbers(labelled) == [3]


def test_a_receipt_that_a_build_made_has_no_event_yet(labelled):
    labelled.put("a.csv", csv_of([(1, 1, None)]))
    labelled.build()
    assert numbers(labelled) == [1]


def test_a_task_that_is_cleared_later_does_not_lower_the_number(labelled):
    put(labelled, "a.csv", "b.csv", "c.csv")
    mark_announced(labelled.folder, 3)
    mark_announced(labelled.folder, 1)
    assert numbers(labelled) == []


def test_a_task_that_is_killed_before_the_mark_repeats_the_event(labelled):
    put(labelled, "a.csv")
    code = (
        "from trainfeed.versions import DatasetFolder\n"
        "from trainfeed.uploads import mark_announced\n"
        f"mark_announced(DatasetFolder({str(labelled.folder.path.parent)!r}, 'clicks'), 1)"
    )
    environ = {**os.environ, "TRAINFEED_FAULTS": "uploads.before_announced:kill"}
    done = subprocess.run([sys.executable, "-c", code], env=environ, check=False)
    assert done.returncode == -9
    assert numbers(labelled) == [1]


def test_a_receipt_that_had_an_event_and_is_gone_is_noticed_and_hides_no_later_one(labelled):
    put(labelled, "a.csv", "b.csv")
    mark_announced(labelled.folder, 2)
    (labelled.folder.receipts / "00000002.json").unlink()
    shutil.rmtree(labelled.folder.receipts / "intervals")
    with pytest.raises(FormatError, match="number 2 is missing"):
        interval_uploads(labelled.folder)
    with pytest.raises(FormatError, match="number 2 is missing"):
        labelled.check()


def test_receipts_after_a_lost_one_have_their_event_when_it_is_back(labelled):
    put(labelled, "a.csv", "b.csv", "c.csv")
    lost = labelled.folder.receipts / "00000002.json"
    data = lost.read_bytes()
    lost.unlink()
    assert [each.number for each in unannounced(labelled.folder)] == [1]
    lost.write_bytes(data)
    assert [each.number for each in unannounced(labelled.folder)] == [1, 2, 3]


def test_a_damaged_number_is_an_error_with_its_remedy(labelled):
    put(labelled, "a.csv")
    mark_announced(labelled.folder, 1)
    path = labelled.folder.receipts / "announced.json"
    path.write_bytes(path.read_bytes().replace(b'"number":1', b'"number":7'))
    with pytest.raises(ChecksumError, match="remove this file"):
        unannounced(labelled.folder)


def test_an_interval_is_built_when_it_has_settled_and_not_before(labelled):
    put(labelled, "a.csv")
    assert ways(labelled, END - timedelta(seconds=1)) == {"open": [DAY]}
    assert ways(labelled, END) == {"buildable": [DAY]}
    labelled.edit("settle: 0s", "settle: 3h")
    assert ways(labelled, END) == {"open": [DAY]}
    assert ways(labelled, END + timedelta(hours=3)) == {"buildable": [DAY]}


def test_a_published_interval_is_left_to_the_reason_of_a_rebuild(labelled):
    put(labelled, "a.csv")
    labelled.build()
    assert ways(labelled, END) == {}
    put(labelled, "b.csv")
    put(labelled, "b.csv", day=NEXT)
    assert ways(labelled, END + timedelta(days=1)) == {"newer": [DAY], "buildable": [NEXT]}
    labelled.build(rebuild="later labels")
    assert ways(labelled, END + timedelta(days=1)) == {"buildable": [NEXT]}


def test_an_interval_that_the_schedule_lost_is_named(labelled):
    put(labelled, "a.csv")
    labelled.edit("start: 2024-03-01", "start: 2024-03-05")
    assert ways(labelled, END) == {"unscheduled": [DAY]}
