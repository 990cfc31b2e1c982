"""Receipts that are damaged or lost: the builds of their interval stop, and no others."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime

import pytest

from tests.unit.uploads.labelled import DAY, csv_of
from trainfeed.errors import FormatError
from trainfeed.look.outdated import find_outdated
from trainfeed.uploads import ReceiptBook, applied_uploads, left_to_do

NEXT = "2024-03-02"
AFTER = datetime(2024, 4, 1, tzinfo=UTC)
LOSSES = ["damaged", "gone"]


@pytest.fixture
def two(labelled):
    """Uploads of two days: receipt 1 of the first one, 2 and 3 of the second one."""
    for day, name in ((DAY, "a.csv"), (NEXT, "b.csv"), (NEXT, "c.csv")):
        labelled.put(name, csv_of([(1, 1, None)]), day=day)
        labelled.check()
    return labelled


def lose(project, number, how):
    path = project.folder.receipts / f"{number:08d}.json"
    data = path.read_bytes()
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(data.replace(b'"rows":1', b'"rows":2'))
    return path, data


def forget(project):
    """Make the folder what an earlier release has left."""
    shutil.rmtree(project.folder.receipts / "intervals")


@pytest.mark.parametrize("how", LOSSES)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_only_the_interval_of_a_lost_receipt_stops(two, number, how):
    lose(two, number, how)
    mine, other = (DAY, NEXT) if number == 1 else (NEXT, DAY)
    with pytest.raises(FormatError):
        applied_uploads(two.folder, mine)
    assert len(applied_uploads(two.folder, other)) == (2 if number == 1 else 1)
    left = left_to_do(two.spec, two.folder, AFTER)
    assert [each.interval for each in left.damaged] == [mine]
    assert [each.interval for each in left.buildable] == [other]
    if other == DAY:
        assert two.build(DAY)["verdict"] == "built"


@pytest.mark.parametrize("how", LOSSES)
def test_a_check_takes_files_of_other_intervals_and_none_of_that_one(two, how):
    path, data = lose(two, 3, how)
    two.put("d.csv", csv_of([(2, 1, None)]), day=DAY)
    two.put("e.csv", csv_of([(2, 1, None)]), day=NEXT)
    report = two.check()
    assert [(each.number, each.name) for each in report.accepted] == [(4, f"{DAY}/d.csv")]
    assert len(report.damaged) == 1
    path.write_bytes(data)
    report = two.check()
    assert [(each.number, each.name) for each in report.accepted] == [(5, f"{NEXT}/e.csv")]
    assert report.damaged == ()


@pytest.mark.parametrize("how", LOSSES)
def test_a_receipt_of_an_earlier_release_is_known_by_the_version_that_has_it(two, how):
    two.build(DAY)
    forget(two)
    lose(two, 1, how)
    with pytest.raises(FormatError):
        applied_uploads(two.folder, DAY)
    assert len(applied_uploads(two.folder, NEXT)) == 2


@pytest.mark.parametrize("how", LOSSES)
def test_a_receipt_of_which_nothing_is_known_may_be_of_any_interval(two, how):
    forget(two)
    lose(two, 2, how)
    for day in (DAY, NEXT):
        with pytest.raises(FormatError):
            applied_uploads(two.folder, day)
    with pytest.raises(FormatError):
        two.check()


@pytest.mark.parametrize("knows", ["intervals", "version"])
def test_the_loss_of_the_last_receipt_is_noticed_although_its_file_is_gone(labelled, knows):
    labelled.put("a.csv", csv_of([(1, 0, None)]))
    labelled.check()
    labelled.put("b.csv", csv_of([(1, 1, None)]))
    labelled.build(DAY)
    (labelled.folder.uploads / DAY / "b.csv").unlink()
    lose(labelled, 2, "gone")
    if knows == "version":
        forget(labelled)
    with pytest.raises(FormatError, match="missing"):
        labelled.build(DAY, rebuild="a reason")
    (finding,) = find_outdated(labelled.spec, labelled.env).intervals
    assert finding.state == "unreadable"
    assert left_to_do(labelled.spec, labelled.folder, AFTER).damaged
    assert labelled.folder.generations(DAY) == [1]


def test_a_check_writes_down_the_intervals_of_receipts_of_an_earlier_release(two):
    forget(two)
    two.check()
    names = sorted(path.name for path in (two.folder.receipts / "intervals").iterdir())
    assert names == [f"00000001.{DAY}", f"00000002.{NEXT}", f"00000003.{NEXT}"]
    assert len(ReceiptBook(two.folder).receipts()) == 3
