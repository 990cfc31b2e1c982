"""The tasks of ``uploads.<data set>``: receipts, event, builds that they ask for, refused files."""

from __future__ import annotations

import shutil
from types import SimpleNamespace

import pytest
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from operators import uploads as check_uploads
from operators.uploads import CheckUploadsOperator, SettleUploadsOperator
from tests.unit.uploads.labelled import DAY, csv_of, make_labelled

GOOD = csv_of([(1, 1, None), (2, 0, "é")])
BAD = csv_of([(1, "x", None)])
ASSET = Asset(name="clicks.uploads", uri="trainfeed://clicks/uploads")


class Airflow:
    """The runs of ``build.clicks`` that Airflow knows, and the XComs of the task."""

    def __init__(self):
        self.run_ids, self.active, self.is_paused, self.xcoms = [], [], False, {}
        self.active_ids = []

    def get_dr_count(self, dag_id, logical_dates=None, run_ids=None, states=None):
        assert dag_id == "build.clicks"
        if run_ids is not None and states is not None:
            assert 0 < len(run_ids) <= 50
            return len(set(run_ids).intersection(self.active_ids))
        if run_ids is not None:
            return len(set(run_ids).intersection(self.run_ids))
        assert states == ["queued", "running"]
        return sum(f"{date:%Y-%m-%d}" in self.active for date in logical_dates)

    def get_dag(self, dag_id):
        return SimpleNamespace(dag_id=dag_id, is_paused=self.is_paused)

    def xcom_push(self, key, value):
        self.xcoms[key] = value


@pytest.fixture
def labelled(tmp_path, monkeypatch, set_connection):
    project = make_labelled(tmp_path)
    monkeypatch.setenv("TRAINFEED_DATASETS", str(project.env.datasets))
    set_connection("hdfs_default")
    set_connection("cephfs_default", extra={"path": str(project.env.root)})
    return project


@pytest.fixture
def airflow():
    return Airflow()


@pytest.fixture
def check(labelled, airflow, monkeypatch):
    """Run the task; gives what it returned and the extra of its event, None without an event."""

    monkeypatch.setattr(check_uploads, "_pause", lambda _: None)

    def run_check(params=None):
        task = CheckUploadsOperator(task_id="check", dataset="clicks", outlets=[ASSET])
        events = {ASSET: SimpleNamespace(extra=None)}
        context = {"params": params or {}, "ti": airflow, "outlet_events": events}
        builds = task.execute(context)
        return builds, events[ASSET].extra if task.outlets else None

    return run_check


def settle(airflow):
    report = airflow.xcoms["uploads"]
    task = SettleUploadsOperator(task_id="settle", dataset="clicks", report=report)
    task.execute({"params": {}, "ti": airflow})


def build_of(number, day=DAY):
    return {"trigger_run_id": f"uploads__{day}__{number}", "conf": {"window_start": day}}


def test_new_uploads_make_one_event_and_ask_for_the_builds_of_their_intervals(
    labelled, airflow, check
):
    labelled.put("a.csv", GOOD)
    labelled.put("b.csv", GOOD, day="2024-03-02")
    builds, extra = check()
    assert builds == [build_of(1), build_of(2, "2024-03-02")]
    assert extra == {
        "receipts": [1, 2],
        "rows": 4,
        "files": [f"{DAY}/a.csv", "2024-03-02/b.csv"],
        "intervals": [DAY, "2024-03-02"],
        "num_intervals": 2,
    }
    settle(airflow)
    airflow.run_ids = [build["trigger_run_id"] for build in builds]
    with pytest.raises(AirflowSkipException, match="no new uploads"):
        check()


def test_without_any_upload_the_run_is_skipped_and_there_is_no_event(airflow, check):
    with pytest.raises(AirflowSkipException, match="no new uploads, and no refused ones"):
        check()
    assert airflow.xcoms["uploads"]["announced"] is None


def test_a_run_that_was_killed_before_its_mark_sends_the_event_once_more(airflow, labelled, check):
    labelled.put("a.csv", GOOD)
    first = check()
    assert check() == first
    settle(airflow)
    airflow.run_ids = ["uploads__2024-03-01__1"]
    with pytest.raises(AirflowSkipException):
        check()


def test_a_receipt_of_a_command_or_a_build_has_an_event(labelled, check):
    labelled.put("a.csv", GOOD)
    labelled.check()
    labelled.prebuilt()
    builds, extra = check()
    assert (builds, extra["receipts"]) == ([], [1, 1])


def test_a_refused_file_fails_the_run_at_its_end_and_keeps_no_other_file_back(
    labelled, airflow, check
):
    labelled.put("a.csv", BAD)
    labelled.put("b.csv", GOOD)
    builds, extra = check()
    assert (builds, extra["files"]) == ([build_of(1)], [f"{DAY}/b.csv"])
    with pytest.raises(AirflowFailException):
        settle(airflow)
    said = airflow.xcoms["failure"]["message"]
    line, *_ = said.splitlines()
    assert line.startswith("refused uploads: 1, nothing of them is used, all others were taken")
    assert f"{DAY}/a.csv: line 2: field 'label': expected int8, got 'x'" in line
    assert "and remove it there" in line
    # The good file's event counts, and the refused one stays red.
    builds, extra = check()
    assert extra is None
    with pytest.raises(AirflowFailException):
        settle(airflow)
    (labelled.folder.uploads / DAY / "a.csv").unlink()
    airflow.run_ids = ["uploads__2024-03-01__1"]
    with pytest.raises(AirflowSkipException):
        check()


def test_a_file_that_grows_between_two_looks_waits_for_the_next_run(
    labelled, airflow, check, monkeypatch, caplog
):
    caplog.set_level("INFO")
    labelled.put("b.csv", GOOD)
    growing = labelled.put("a.csv", csv_of([(1, 1, None)]))

    def grow(seconds):
        assert seconds == check_uploads.BETWEEN_LOOKS_S
        with growing.open("ab") as file:
            file.write(b"2,0,late\n")
        labelled.put("c.csv", GOOD)

    monkeypatch.setattr(check_uploads, "_pause", grow)
    _, extra = check()
    assert extra["files"] == [f"{DAY}/b.csv"]
    assert f"left to the next run: {DAY}/a.csv, {DAY}/c.csv" in caplog.text
    settle(airflow)
    monkeypatch.setattr(check_uploads, "_pause", lambda _: None)
    _, extra = check()
    assert (extra["files"], extra["rows"]) == ([f"{DAY}/a.csv", f"{DAY}/c.csv"], 4)


def test_files_with_receipts_are_not_looked_at_twice(labelled, airflow, check, monkeypatch):
    labelled.put("a.csv", GOOD)
    check()
    settle(airflow)
    airflow.run_ids = ["uploads__2024-03-01__1"]
    monkeypatch.delattr(check_uploads, "_pause")
    with pytest.raises(AirflowSkipException):
        check()


def test_a_published_interval_is_not_built_again_and_the_log_says_how(
    labelled, airflow, check, caplog
):
    labelled.put("a.csv", GOOD)
    labelled.build()
    labelled.put("b.csv", GOOD)
    builds, extra = check()
    assert (builds, extra["receipts"]) == ([], [1, 2])
    assert airflow.xcoms["uploads"]["newer_than_version"] == [DAY]
    assert "newer uploads, which stay as they are: 1: 2024-03-01; to take them" in caplog.text
    assert "trigger build.clicks with window_start and rebuild = why" in caplog.text
    assert labelled.folder.current_generation(DAY) == 1


def test_an_interval_with_an_active_run_is_left_to_it(labelled, airflow, check):
    labelled.put("a.csv", GOOD)
    airflow.active = [DAY]
    assert check()[0] == []
    airflow.active = []
    assert check()[0] == [build_of(1)]


def test_an_upload_that_comes_during_the_run_of_an_earlier_one_starts_no_second_run(
    labelled, airflow, check
):
    labelled.put("a.csv", GOOD)
    (first,) = check()[0]
    airflow.run_ids = airflow.active_ids = [first["trigger_run_id"]]
    for number in range(60):
        labelled.put(f"b{number:02d}.csv", GOOD)
    assert check()[0] == []
    airflow.active_ids = []
    assert check()[0] == [build_of(61)]


def test_an_interval_that_has_not_settled_is_left_to_its_normal_build(labelled, airflow, check):
    labelled.edit("settle: 0s", "settle: 36500d")
    labelled.put("a.csv", GOOD)
    builds, extra = check()
    assert (builds, extra["intervals"]) == ([], [DAY])
    assert airflow.xcoms["uploads"]["not_settled"] == [DAY]


def test_a_build_that_has_failed_is_named_and_not_started_over_and_over(
    labelled, airflow, check, caplog
):
    labelled.put("a.csv", GOOD)
    airflow.run_ids = ["uploads__2024-03-01__1"]
    assert check()[0] == []
    assert "build.clicks has its run uploads__2024-03-01__1: if that has failed" in caplog.text
    labelled.put("b.csv", GOOD)
    assert check()[0] == [build_of(2)]


def test_builds_that_wait_for_a_paused_dag_are_told(labelled, airflow, check, caplog):
    labelled.put("a.csv", GOOD)
    airflow.is_paused = True
    assert check()[0] == [build_of(1)]
    assert "build.clicks is paused: runs that wait until it is switched on: 1" in caplog.text


def test_an_hourly_interval_is_named_as_the_form_of_its_build_takes_it(labelled, check):
    labelled.edit('"@daily"', '"@hourly"')
    labelled.put("a.csv", GOOD, day="2024-03-01T05")
    (build,) = check()[0]
    assert build == {
        "trigger_run_id": "uploads__2024-03-01T05__1",
        "conf": {"window_start": "2024-03-01T05:00:00Z"},
    }


def test_more_builds_than_a_run_may_start_are_started_by_the_next(
    labelled, airflow, check, monkeypatch
):
    monkeypatch.setattr(check_uploads, "BUILDS_LIMIT", 2)
    days = [f"2024-03-0{number}" for number in range(1, 6)]
    for day in days:
        labelled.put("a.csv", GOOD, day=day)
    asked = []
    for expected in (2, 2, 1):
        builds, _ = check()
        assert len(builds) == expected
        airflow.run_ids += [build["trigger_run_id"] for build in builds]
        asked += [build["conf"]["window_start"] for build in builds]
    assert asked == days


def test_a_root_that_is_not_mounted_is_an_error_and_no_empty_folder(labelled, check):
    shutil.rmtree(labelled.env.root)
    with pytest.raises(Exception, match="root"):
        check()


def test_a_parameter_that_the_form_does_not_have_is_refused(check):
    with pytest.raises(AirflowFailException, match="rebuild"):
        check({"rebuild": "new labels"})
