"""Uploads end with their interval, by a rule; receipts stay, and who builds it again is told."""

import hashlib
import os
import signal
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import typer.testing

from tests.unit.pipeline.clicks import DAY_MS, START_MS, batch
from tests.unit.upkeep.retention.test_intervals import prune_command
from tests.unit.uploads.labelled import csv_of, make_labelled
from trainfeed.cli._app import app
from trainfeed.errors import NotFoundError
from trainfeed.pipeline.plan import plan
from trainfeed.upkeep.retention import Context, prune, retire, scheduled_kinds
from trainfeed.upkeep.retention import uploads as _upload_kind
from trainfeed.upkeep.retention.uploads import RetiredUploads
from trainfeed.uploads import ReceiptBook, left_to_do, take_upload
from trainfeed.uploads import removal as _removed_uploads
from trainfeed.versions.history import actions
from trainfeed.versions.lease import hold_build, hold_versions
from trainfeed.versions.retire import retirement_of, write_retirement

DAYS = [f"2024-03-{number:02d}" for number in range(1, 4)]
OLD, SECOND, NEW = DAYS
KIND = (RetiredUploads(),)
A, B, SHARED = (csv_of([(number, 1, None)]) for number in (1, 2, 3))


@pytest.fixture
def labelled(tmp_path):
    """Three published days; the first is retired, with two files, one like that of the last."""
    project = make_labelled(tmp_path)
    rows = [
        {"value": b'{"id": %d}' % number, "timestamp": START_MS + number * DAY_MS // 4}
        for number in range(20)
    ]
    project.record({0: [batch(rows)]})
    files = [("a.csv", A, OLD), ("shared.csv", SHARED, OLD)]
    for name, data, day in (*files, ("b.csv", B, SECOND), ("c.csv", SHARED, NEW)):
        project.put(name, data, day=day)
    for day in DAYS:
        project.prebuilt(day)
    project.edit("seed: 7", "seed: 7\nretention: {uploads: {keep_days: 30}}")
    retire(context(project), OLD, "no longer wanted")
    return project


def context(project, days=0):
    now = datetime.now(UTC) + timedelta(days=days)
    return Context.of(project.spec, project.env, who="ann", now=now)


def run(project, days=31, **options):
    return prune(context(project, days), KIND, **options)


def there(project):
    root = project.folder.path
    kept = list((project.folder.receipts / "content").iterdir())
    found = [path for path in project.folder.uploads.rglob("*") if path.is_file()]
    return sorted(str(path.relative_to(root))[:24] for path in [*kept, *found])


def digest(data):
    return f"receipts/content/{hashlib.sha256(data).hexdigest()}"[:24]


BEFORE = sorted(
    [
        *map(digest, (A, B, SHARED)),
        f"uploads/{OLD}/a.csv",
        f"uploads/{OLD}/shared."[:24],
        f"uploads/{SECOND}/b.csv",
        f"uploads/{NEW}/c.csv",
    ]
)
AFTER = sorted(
    [
        *map(digest, (B, SHARED)),
        f"uploads/{SECOND}/b.csv",
        f"uploads/{NEW}/c.csv",
    ]
)


def test_they_go_by_the_rule_and_bytes_that_another_interval_has_stay(labelled):
    assert run(labelled, days=29).expired == ()
    found = run(labelled, dry_run=True)
    assert there(labelled) == BEFORE
    ((item, why),) = [(each.item, each.why) for each in found.expired]
    assert (item.name, why) == (OLD, "keep_days: 30")
    assert item.num_bytes == 2 * len(A) + len(SHARED)
    assert run(labelled).by_kind() == found.by_kind()
    assert there(labelled) == AFTER
    assert not (labelled.folder.uploads / OLD).exists()
    assert run(labelled).expired == ()
    (done,) = [each for each in actions(labelled.folder) if each.details["kind"] == "uploads"]
    assert (done.who, done.details["items"][0]["name"]) == ("ann", OLD)
    # The proof of what was accepted stays, and later uploads are numbered behind it.
    assert [each.number for each in labelled.book.receipts()] == [1, 2, 3, 4]
    labelled.put("d.csv", B, day=NEW)
    assert labelled.check().accepted[0].number == 5
    for day in DAYS[1:]:
        labelled.version(day).verify()
    assert labelled.build(SECOND)["verdict"] == "identical"


def test_without_a_rule_they_stay_and_nothing_is_read(labelled):
    labelled.edit("retention: {uploads: {keep_days: 30}}", "retention: {keep_days: 30}")
    (labelled.folder.receipts / "00000001.json").write_bytes(b"{")
    assert run(labelled) == run(labelled)
    assert there(labelled) == BEFORE


def test_the_schedule_removes_them(labelled):
    assert "uploads" in [each.name for each in scheduled_kinds(labelled.spec)]


def test_a_rebuild_is_told_who_removed_them_and_takes_files_that_are_put_back(labelled):
    run(labelled)
    with pytest.raises(NotFoundError) as refused:
        labelled.build(OLD, rebuild="the audit")
    told = str(refused.value)
    assert "nothing was published; retention removed it with its retired interval on " in told
    assert "for ann" in told
    assert "(keep_days: 30); to build the interval again, put the file back" in told
    assert f"uploads/{OLD}/a.csv: the build keeps them again" in told
    labelled.put("a.csv", A)
    # The bytes of the other file are there, as another interval has them.
    assert labelled.build(OLD, rebuild="the audit")["generation"] == "g0002"
    labelled.version(OLD).verify()
    assert run(labelled).expired == ()
    assert digest(A) in there(labelled)


def test_what_was_put_back_is_as_old_as_its_place(labelled):
    run(labelled)
    labelled.put("a.csv", A)
    os.utime(labelled.folder.uploads / OLD / "a.csv", (0, 0))
    labelled.check()
    assert digest(A) in there(labelled)
    retired = retirement_of(labelled.folder, OLD)
    write_retirement(labelled.folder, replace(retired, at="2024-04-01T00:00:00Z"))
    assert run(labelled, days=29).expired == ()
    assert [each.item.name for each in run(labelled, days=31).expired] == [OLD]
    assert there(labelled) == AFTER


def test_another_file_under_the_name_is_refused_as_before(labelled):
    run(labelled)
    labelled.put("a.csv", B)
    assert "changed after receipt 1" in labelled.refused()[f"{OLD}/a.csv"]


@pytest.fixture(params=["plan", "build", "unreadable lease", "published"])
def used(request, labelled):
    """A use of the retired interval, and what is told of it."""
    if request.param == "plan":
        plan(labelled.spec, labelled.interval(OLD), labelled.env, rebuild="the audit")
        yield labelled, "may still be published with them"
    elif request.param == "build":
        with hold_build(labelled.folder, OLD, 2, "a test", length=timedelta(minutes=5)):
            yield labelled, "it is being built"
    elif request.param == "published":
        labelled.prebuilt(OLD, rebuild="the audit")
        yield labelled, None
    else:
        with hold_versions(labelled.folder, [(NEW, 1)], "a test", length=timedelta(minutes=5)):
            (lease,) = labelled.folder.leases.glob("read.*")
            lease.write_bytes(b"{")
            yield labelled, "leased"


def test_what_needs_them_keeps_them(used):
    labelled, why = used
    labelled.edit("{keep_days: 30}", "{max_bytes: 0}")
    found = run(labelled, days=0)
    assert found.expired == ()
    assert [why in each.why for each in found.kept] == ([] if why is None else [True])
    assert there(labelled) == BEFORE


def test_a_plan_between_look_and_removal_keeps_them(labelled):
    looked = context(labelled, 31)
    found = list(KIND[0].find(looked))
    plan(labelled.spec, labelled.interval(OLD), labelled.env, rebuild="the audit")
    (kept,) = KIND[0].remove(looked, found)
    assert "came into use" in kept.why
    assert there(labelled) == BEFORE


def test_a_receipt_between_look_and_removal_has_its_bytes(labelled, monkeypatch):
    """The check finds the bytes kept, retention removes them, and then the receipt is written."""
    real = ReceiptBook.add

    def add(self, receipt):
        monkeypatch.undo()
        run(labelled)
        assert digest(A) not in there(labelled)
        return real(self, receipt)

    labelled.put("like-a.csv", A, day=NEW)
    monkeypatch.setattr(ReceiptBook, "add", add)
    labelled.check()
    assert digest(A) in there(labelled)
    assert labelled.build(NEW, rebuild="more labels")["generation"] == "g0002"


def test_a_damaged_receipt_keeps_all_and_is_said(labelled):
    path = labelled.folder.receipts / "00000003.json"
    path.write_bytes(path.read_bytes()[:-9])
    (kept,) = run(labelled).kept
    assert "which uploads there are cannot be told" in kept.why
    assert there(labelled) == BEFORE


def test_a_file_that_changed_after_its_receipt_stays(labelled):
    path = labelled.folder.uploads / OLD / "a.csv"
    path.write_bytes(B)
    removals = run(labelled)
    assert removals.expired == ()
    assert "a file has changed since its receipt" in removals.kept[0].why
    assert path.read_bytes() == B


@pytest.mark.parametrize("what", ["folder", "file"])
def test_no_link_is_followed(labelled, tmp_path, what):
    outside = tmp_path / "outside"
    folder = labelled.folder.uploads / OLD
    folder.rename(outside)
    if what == "folder":
        folder.symlink_to(outside)
    else:
        folder.mkdir()
        (folder / "a.csv").symlink_to(outside / "a.csv")
    run(labelled)
    assert (outside / "a.csv").read_bytes() == A
    receipt = labelled.book.receipts()[0]
    assert not take_upload(labelled.folder, receipt, tmp_path / "taken")
    assert not (tmp_path / "taken").exists()


def test_a_file_that_is_exchanged_at_the_last_moment_is_put_back(labelled, tmp_path, monkeypatch):
    path = labelled.folder.uploads / OLD / "a.csv"
    real = _removed_uploads.opened_folder

    def opened(*args):
        path.unlink()
        path.write_bytes(B)
        return real(*args)

    monkeypatch.setattr(_removed_uploads, "opened_folder", opened)
    assert not take_upload(labelled.folder, labelled.book.receipts()[0], tmp_path / "taken")
    assert path.read_bytes() == B


def test_two_retired_intervals_with_one_content_go_together_or_not(labelled):
    labelled.edit("retention: {uploads: {keep_days: 30}}", "retention: {uploads: {keep: 1}}")
    labelled.put("b2.csv", A, day=SECOND)
    labelled.prebuilt(SECOND, rebuild="more labels")
    retire(context(labelled), SECOND, "no longer wanted, too")
    run(labelled)
    assert digest(A) in there(labelled)  # the newer of the two has it, and stays
    labelled.edit("{keep: 1}", "{keep_days: 30}")
    assert [each.item.name for each in run(labelled).expired] == [OLD, SECOND]
    assert there(labelled) == sorted([digest(SHARED), f"uploads/{NEW}/c.csv"])


def test_no_build_is_asked_for_of_a_retired_interval(labelled):
    left = left_to_do(labelled.spec, labelled.folder, datetime.now(UTC))
    assert (left.buildable, [each.interval for each in left.retired]) == ((), [OLD])


def test_the_list_tells_of_them_and_new_ones_of_a_retired_interval_are_told(labelled, monkeypatch):
    monkeypatch.setenv("TRAINFEED_ROOT", labelled.env.root)
    monkeypatch.setenv("TRAINFEED_DATASETS", str(labelled.env.datasets))

    def look(*arguments):
        return typer.testing.CliRunner().invoke(app, ["uploads", *arguments, "clicks"]).stdout

    assert "retired, removed" not in look("ls")
    assert "--interval" not in look("check")
    run(labelled)
    assert look("ls").count("retired, removed") == 2
    labelled.put("new.csv", B)
    assert f"build clicks --interval {OLD} --rebuild WHY" in look("check")


POINTS = ["history.after_action", "uploads.after_look", "uploads.after_note"]
POINTS += ["uploads.after_file", "uploads.after_bytes"]


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_run_is_completed_by_the_next_one(labelled, point):
    labelled.edit("{keep_days: 30}", "{max_bytes: 0}")
    killed = prune_command(labelled, point)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert labelled.build(NEW)["verdict"] == "identical"
    for _ in range(2):
        prune(context(labelled))
    assert there(labelled) == AFTER
    assert list(labelled.folder.trash.iterdir()) == []
    assert prune(context(labelled)).expired == ()
    with pytest.raises(NotFoundError, match="retention removed it"):
        labelled.build(OLD, rebuild="the audit")


def test_the_second_look_is_under_the_lock_of_checks(labelled, monkeypatch):
    held = []
    real = _upload_kind.keeping

    def keeping(folder):
        held.append(folder)
        return real(folder)

    monkeypatch.setattr(_upload_kind, "keeping", keeping)
    run(labelled)
    assert held == [labelled.folder]
