"""The status of a data set from its folder: states, reasons, and the time up to which all is in."""

import os
import shutil
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.look.status.published import publish, topic
from tests.unit.pipeline.conftest import make_project
from tests.unit.pipeline.log_project import DAY, make_log_project
from trainfeed.core.intervals import Schedule
from trainfeed.errors import GateError, TrainFeedError, WindowOpenError, WithdrawnError
from trainfeed.files.attempts import ATTEMPTS
from trainfeed.files.stores import Location
from trainfeed.look.status import Attempts, as_text, dataset_status
from trainfeed.pipeline.planner.decision import require_complete
from trainfeed.upkeep.withdrawal import Maker, restore, withdraw
from trainfeed.versions import Skip, record_schedule, write_skip

NOW = datetime(2026, 1, 5, 6, tzinfo=UTC)


def states(found):
    return {each.interval: each.state for each in found.intervals}


def reasons(found):
    return {each.interval: each.reason for each in found.intervals}


def up_to(found):
    held = found.held_back_by
    return as_text(found.complete_up_to), None if held is None else held.interval


def test_every_day_that_is_over_has_one_state(days):
    first, second, third, fourth = days.first(4)
    publish(days.folder, first)
    publish(days.folder, second, empty=True, empty_because={"kafka:clicks/0": "log_end"})
    write_skip(days.folder, Skip(third.name, "no folder", "2026-01-04T00:00:00Z", None))
    found = days.status(NOW)
    assert states(found) == {
        first.name: "published",
        second.name: "empty",
        third.name: "skipped",
        fourth.name: "missing",
    }
    assert reasons(found)[second.name] == "kafka:clicks/0: log_end"
    assert reasons(found)[third.name] == "no folder"
    assert not found.is_in_order


def test_all_days_in_order_are_complete_up_to_the_last_that_is_over(days):
    for each in days.first(4):
        publish(days.folder, each)
    found = days.status(NOW)
    assert up_to(found) == ("2026-01-05T00:00:00Z", None)
    assert found.is_in_order


def test_a_missing_day_holds_the_time_back_and_is_named(days):
    first, _, third, fourth = days.first(4)
    for each in (first, third, fourth):
        publish(days.folder, each)
    found = days.status(NOW)
    assert up_to(found) == ("2026-01-02T00:00:00Z", "2026-01-02")
    assert found.held_back_by.state == "missing"
    assert as_text(found.decided_up_to) == "2026-01-02T00:00:00Z"


def test_a_first_day_that_is_missing_leaves_nothing_complete(days):
    publish(days.folder, days.first(2)[1])
    assert up_to(days.status(NOW)) == (None, "2026-01-01")


def test_a_recorded_loss_holds_the_time_back_and_may_be_counted_as_decided(days):
    first, second, third, fourth = days.first(4)
    gap = {"source": "kafka:clicks/0", "start": 0, "end": 3, "why": "retention"}
    publish(days.folder, second, gaps=[gap])
    for each in (first, third, fourth):
        publish(days.folder, each)
    found = days.status(NOW)
    assert states(found)[second.name] == "gap"
    assert reasons(found)[second.name] == ("kafka:clicks/0 offsets [0, 3) are lost: retention")
    assert up_to(found) == ("2026-01-02T00:00:00Z", "2026-01-02")
    assert as_text(found.decided_up_to) == "2026-01-05T00:00:00Z"


def test_a_recorded_loss_hides_no_other_offsets_that_no_interval_has_read(days):
    first, second, *_ = days.first(2)
    gap = {"source": "kafka:clicks/0", "start": 20, "end": 30, "why": "retention"}
    publish(days.folder, first, inputs=topic(0, 10))
    publish(days.folder, second, inputs=topic(40, 50), gaps=[gap])
    found = days.status(second.end)
    assert states(found)[second.name] == "unread"
    assert reasons(found)[second.name] == (
        "kafka:clicks/0 offsets [10, 20) are in no interval;"
        " kafka:clicks/0 offsets [30, 40) are in no interval;"
        " kafka:clicks/0 offsets [20, 30) are lost: retention"
    )


def test_offsets_that_are_recorded_as_lost_are_the_accepted_loss_alone(days):
    first, second, *_ = days.first(2)
    gap = {"source": "kafka:clicks/0", "start": 10, "end": 40, "why": "retention"}
    publish(days.folder, first, inputs=topic(0, 10))
    publish(days.folder, second, inputs=topic(40, 50), gaps=[gap])
    assert states(days.status(second.end))[second.name] == "gap"


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        (topic(12, 20), "kafka:clicks/0 offsets [10, 12) are in no interval"),
        (topic(8, 20), "kafka:clicks/0 offsets [8, 10) are in two intervals"),
        (topic(10, 20) | topic(4, 9, 1), "kafka:clicks/1 offsets [0, 4) are in no interval"),
        (topic(0, 9, 1), "kafka:clicks/0 is not read from offset 10 on"),
    ],
)
def test_an_unread_partition_holds_the_time_back_and_is_named(days, inputs, reason):
    first, second, third, fourth = days.first(4)
    publish(days.folder, first, inputs=topic(0, 10))
    publish(days.folder, second, inputs=inputs)
    publish(days.folder, third)
    publish(days.folder, fourth)
    found = days.status(NOW)
    assert (states(found)[second.name], reasons(found)[second.name]) == ("unread", reason)
    # Nobody decided it: it counts as no accepted loss, and asks for a person.
    assert found.decided_up_to == found.complete_up_to
    assert not found.is_in_order
    assert up_to(found) == ("2026-01-02T00:00:00Z", "2026-01-02")


def of_member(member, inputs):
    return {f"{member}/{source}": planned for source, planned in inputs.items()}


@pytest.mark.parametrize("before", ["", "old"])
def test_a_topic_that_becomes_a_member_or_gets_another_name_is_read_on_where_it_ended(days, before):
    first, second, third, _ = days.first(4)
    gap = {"start": 10, "end": 12, "why": "retention"}
    ended = topic(0, 10)
    publish(days.folder, first, inputs=of_member(before, ended) if before else ended)
    begins = of_member("eu", topic(14, 20)) | of_member("us", topic(0, 5, uuid="v"))
    gaps = [{**gap, "source": "eu/kafka:clicks/0"}, {**gap, "source": "us/kafka:clicks/0"}]
    publish(days.folder, second, inputs=begins, gaps=gaps)
    goes_on = of_member("eu", topic(20, 30)) | of_member("us", topic(4, 9, uuid="v"))
    publish(days.folder, third, inputs=goes_on)
    found = reasons(days.status(third.end))
    assert "eu/kafka:clicks/0 offsets [12, 14) are in no interval;" in found[second.name]
    assert found[third.name] == "us/kafka:clicks/0 offsets [4, 5) are in two intervals"


def test_neighbours_of_one_topic_and_a_topic_that_was_made_again_lack_nothing(days):
    first, second, third, fourth = days.first(4)
    publish(days.folder, first, inputs=topic(0, 10))
    publish(days.folder, second, inputs=topic(10, 20) | topic(0, 5, 1))
    publish(days.folder, third, inputs=topic(20, 20) | topic(5, 5, 1))
    publish(days.folder, fourth, inputs=topic(3, 9, uuid="v"))
    assert set(states(days.status(NOW)).values()) == {"published"}


def test_late_records_are_told_at_the_interval_they_are_stamped_in(days):
    first, second, third, fourth = days.first(4)
    day_ms = 86_400_000
    for each in (first, second, fourth):
        publish(days.folder, each)
    version = publish(days.folder, third, late={"late": 3, "max_lateness_ms": day_ms + 5})
    found = days.status(NOW)
    assert states(found)[first.name] == "late"
    assert set(states(found).values()) == {"late", "published"}
    assert reasons(found)[first.name] == f"late records are in {third.name}"
    since = int((version / "MANIFEST.json").stat().st_mtime)
    assert next(each for each in found.intervals if each.state == "late").since == since
    assert up_to(found) == ("2026-01-05T00:00:00Z", None)
    assert found.is_in_order


def test_a_damaged_manifest_is_named_and_hides_no_other_interval(days):
    first, second, third, fourth = days.first(4)
    for each in (first, second, third, fourth):
        publish(days.folder, each)
    (days.folder.version(second.name, 1) / "MANIFEST.json").write_text("{}")
    found = days.status(NOW)
    assert states(found)[second.name] == "damaged"
    assert "ChecksumError" in reasons(found)[second.name]
    assert up_to(found) == ("2026-01-02T00:00:00Z", second.name)
    assert found.is_damaged


@pytest.mark.parametrize(
    ("marks", "state", "reason"),
    [
        (["g0001.withdrawn"], "withdrawn", "g0001.withdrawn"),
        (["g0001.removed"], "removed", "g0001.removed"),
        (["g0001.removed", "g0001.withdrawn"], "withdrawn", "g0001.withdrawn"),
        (["g0001.withdrawn", "g0002.removed"], "removed", "g0002.removed"),
        (["g0001.removed", "g0009.removed", "g0010.withdrawn"], "withdrawn", "g0010.withdrawn"),
    ],
)
def test_an_interval_whose_generations_are_all_hidden_is_withdrawn_or_removed(
    days, marks, state, reason
):
    first, second, third, fourth = days.first(4)
    for each in (first, second, third, fourth):
        publish(days.folder, each)
    for mark in marks:
        (days.folder.interval(second.name) / mark).touch()
    os.utime(days.folder.interval(second.name) / reason, (1_767_300_000, 1_767_300_000))
    found = days.status(NOW)
    (hidden,) = (each for each in found.intervals if each.interval == second.name)
    assert (hidden.state, hidden.reason, hidden.since) == (state, reason, 1_767_300_000)
    assert up_to(found) == ("2026-01-02T00:00:00Z", second.name)
    assert as_text(found.decided_up_to) == "2026-01-05T00:00:00Z"
    assert found.is_in_order
    assert not days.status(NOW, second.name).is_in_order


def test_after_a_withdrawal_the_next_generation_counts_and_so_does_an_attempt_that_failed(tmp_path):
    project = make_project(tmp_path)
    project.prebuilt()
    mark = project.folder.interval("2024-03-01") / "g0001.withdrawn"
    mark.touch()
    project.edit("seed: 7\n", "seed: 7\nquality:\n  - {check: count, min: 10000}\n")
    with pytest.raises(GateError):
        project.build(rebuild="counted")
    found = status_of(project).intervals[0]
    assert found.state == "failed"
    assert found.reason.startswith("g0001.withdrawn; check: GateError: ")
    in_future = datetime.now(UTC).timestamp() + 60
    os.utime(mark, (in_future, in_future))
    assert status_of(project).intervals[0].state == "withdrawn"
    project.edit("count, min: 10000", "count, min: 1")
    project.prebuilt(rebuild="counted")
    assert [status_of(project).intervals[0][n] for n in (1, 6)] == ["published", 2]


def test_the_generation_is_the_one_that_readers_get(days):
    first, *_ = days.first(1)
    publish(days.folder, first)
    publish(days.folder, first, 2, points=False)
    assert days.status(NOW).intervals[0].generation == 1
    (days.folder.interval(first.name) / "CURRENT").write_text("g0002\n")
    assert days.status(NOW).intervals[0].generation == 2


def test_a_range_lists_its_days_and_keeps_the_time_of_the_whole_data_set(days):
    first, second, *_ = days.first(4)
    publish(days.folder, second)
    found = days.status(NOW, "2026-01-02")
    assert states(found) == {second.name: "published"}
    assert found.is_in_order
    assert up_to(found) == (None, first.name)


def test_a_range_that_is_not_over_is_waited_for_and_not_in(days):
    for each in days.first(4):
        publish(days.folder, each)
    found = days.status(NOW, "2026-01-05/2026-01-06")
    assert states(found) == {"2026-01-05": "waiting", "2026-01-06": "waiting"}
    assert reasons(found)["2026-01-05"] == "it ends at 2026-01-06T00:00:00Z"
    assert not found.is_in_order
    assert up_to(found) == ("2026-01-05T00:00:00Z", None)


def test_a_published_day_covers_its_hours_and_a_changed_schedule_names_the_rest(days):
    first, second, *_ = days.first(2)
    publish(days.folder, first)
    record_schedule(days.folder, Schedule("@hourly", first.start))
    found = days.status(second.start + timedelta(hours=2))
    assert states(found) == {
        first.name: "published",
        "2026-01-02T00": "missing",
        "2026-01-02T01": "missing",
    }
    record_schedule(days.folder, Schedule("0 0 */2 * *", first.start))
    found = days.status(NOW)
    assert states(found)[first.name] == "published"
    assert states(found)[second.name] == "missing"
    assert up_to(found) == ("2026-01-02T00:00:00Z", second.name)


def test_without_a_schedule_versions_show_their_own_holes(days):
    first, _, third, _ = days.first(4)
    publish(days.folder, first)
    publish(days.folder, third)
    days.folder.schedule.unlink()
    found = days.status(NOW)
    assert states(found) == {
        first.name: "published",
        "2026-01-02": "missing",
        third.name: "published",
    }
    assert up_to(found) == ("2026-01-02T00:00:00Z", "2026-01-02")
    assert any("no schedule is known" in doubt for doubt in found.doubts)


def test_versions_that_overlap_are_named_as_a_doubt(days):
    first, *_ = days.first(1)
    publish(days.folder, first)
    hour = next(Schedule("@hourly", first.start).intervals())
    publish(days.folder, hour)
    assert any("overlap" in doubt for doubt in days.status(NOW).doubts)


def status_of(project, now=None):
    now = now or datetime.now(UTC)
    attempts = Attempts(Location.parse(project.env.work), now)
    return dataset_status(project.folder, datasets=project.env.datasets, attempts=attempts, now=now)


def test_a_failed_gate_is_told_with_its_reason_and_a_rebuild_that_failed_beside_its_version(
    tmp_path,
):
    project = make_project(tmp_path)
    gates = "quality:\n  - {check: count, min: 10000}\n"
    project.prebuilt()
    project.edit("seed: 7\n", f"seed: 7\n{gates}")
    with pytest.raises(GateError):
        project.build("2024-03-02")
    with pytest.raises(GateError):
        project.build(rebuild="gates")
    found = status_of(project)
    assert states(found)["2024-03-01"] == "published"
    assert reasons(found)["2024-03-01"].startswith("the next generation failed: GateError: ")
    assert states(found)["2024-03-02"] == "failed"
    assert reasons(found)["2024-03-02"].startswith("check: GateError: clicks/2024-03-02 is not")
    assert states(found)["2024-03-03"] == "missing"
    assert len(found.intervals) == 31
    project.edit(gates, "")
    project.prebuilt("2024-03-02")
    assert states(status_of(project))["2024-03-02"] == "published"


def test_a_wrong_specification_is_a_doubt_and_the_recorded_schedule_answers(tmp_path):
    project = make_project(tmp_path)
    project.prebuilt()
    project.edit("seed: 7", "seed: seven")
    found = status_of(project)
    assert len(found.intervals) == 31
    assert any("its specification is wrong" in doubt for doubt in found.doubts)


def test_logs_are_waited_for_as_the_specification_says_and_then_decided_by_the_next_build(
    tmp_path,
):
    project = make_log_project(tmp_path)
    project.logs.rename(tmp_path / "kept")
    project.edit("wait: 36500d", "wait: 2d, missing: empty")
    end = datetime(2024, 3, 2, tzinfo=UTC)
    found = status_of(project, end + timedelta(days=1))
    assert states(found)[DAY] == "waiting"
    assert reasons(found)[DAY] == "its source may come until 2024-03-04T00:00:00Z"
    assert found.is_in_order
    found = status_of(project, end + timedelta(days=2))
    assert states(found)[DAY] == "missing"
    assert "'missing: empty'" in reasons(found)[DAY]
    assert not found.is_in_order
    project.build()
    assert states(status_of(project, end + timedelta(days=3)))[DAY] == "empty"


def test_a_topic_is_waited_for_as_its_specification_says_and_then_skipped(tmp_path):
    project = make_project(tmp_path)
    project.edit("settle: 0s", "settle: 0s, wait: 36500d, missing: skip")
    with pytest.raises(WindowOpenError):
        project.build("2024-03-04")
    shown = {each.interval: each for each in status_of(project).intervals}
    assert shown["2024-03-04"].state == "waiting"
    assert "topic 'clicks' has no record of it yet" in shown["2024-03-04"].reason
    assert shown["2024-03-05"].reason == "its source may come until 2124-02-11T00:00:00Z"
    project.edit("36500d", "2d")
    assert "'missing: skip'" in reasons(status_of(project))["2024-03-05"]
    project.prebuilt("2024-03-04")
    assert states(status_of(project))["2024-03-04"] == "skipped"


def test_a_run_that_waits_says_what_for(tmp_path):
    project = make_log_project(tmp_path)
    (project.logs / "_SUCCESS").unlink()
    with pytest.raises(WindowOpenError):
        require_complete(project.spec, project.interval(), project.env)
    found = status_of(project)
    assert states(found)[DAY] == "waiting"
    assert "it has no _SUCCESS" in reasons(found)[DAY]


def mark(project, plan, **facts):
    """Leave the mark of an attempt behind."""
    from trainfeed.files import attempts as room

    place = Location.parse(project.env.work) / ATTEMPTS / f"{plan}.build.json"
    with room.attempt(place, "build", ""):
        data = place.read_bytes()
    for old, new in facts.items():
        data = data.replace(old.encode(), new.encode())
    place.write_atomic(lambda file: file.write(data))


@pytest.fixture
def stopped(tmp_path):
    """A build of 2024-03-01 that planned, and ended without an error."""
    project = make_project(tmp_path)
    project.edit("seed: 7\n", "seed: 7\nquality:\n  - {check: count, min: 10000}\n")
    with pytest.raises(GateError):
        project.build()
    shutil.rmtree(project.folder.path / "unpublished")
    return project


def test_a_plan_without_an_attempt_is_missing_and_names_the_plan(stopped):
    found = status_of(stopped)
    plan, *_ = stopped.folder.plan_ids("2024-03-01")
    assert states(found)["2024-03-01"] == "missing"
    assert reasons(found)["2024-03-01"] == f"planned as {plan}, and no attempt is at work"


def test_an_attempt_at_work_is_building_and_one_that_was_killed_has_failed(stopped):
    plan, *_ = stopped.folder.plan_ids("2024-03-01")
    mark(stopped, plan)
    found = status_of(stopped)
    assert states(found)["2024-03-01"] == "building"
    assert f"process {os.getpid()}" in reasons(found)["2024-03-01"]
    assert states(found)["2024-03-02"] == "missing"
    mark(stopped, plan, **{f'"pid":{os.getpid()}': '"pid":1'})
    found = status_of(stopped)
    assert states(found)["2024-03-01"] == "failed"
    assert reasons(found)["2024-03-01"].endswith("was killed")


def test_an_attempt_elsewhere_is_building_until_it_has_written_nothing_for_an_hour(stopped):
    import socket

    plan, *_ = stopped.folder.plan_ids("2024-03-01")
    mark(stopped, plan, **{socket.gethostname(): "elsewhere"})
    now = datetime.now(UTC)
    assert states(status_of(stopped, now))["2024-03-01"] == "building"
    found = status_of(stopped, now + timedelta(hours=2))
    assert states(found)["2024-03-01"] == "failed"
    assert "perhaps killed" in reasons(found)["2024-03-01"]


def test_a_work_folder_that_does_not_answer_is_a_doubt(stopped, monkeypatch):
    from trainfeed.errors import StorageError

    def refuse(self):
        raise StorageError("the store is away")

    monkeypatch.setattr(Location, "list", refuse)
    found = status_of(stopped)
    assert states(found)["2024-03-01"] == "missing"
    assert found.doubts == ("builds at work are not known: the store is away",)


def test_a_build_that_a_withdrawal_refused_is_told_until_the_withdrawal_is_taken_back(
    tmp_path,
):
    project = make_project(tmp_path)
    project.prebuilt()
    maker = Maker("ada", "builder", "labels of yesterday")
    withdraw(project.env, "clicks", "2024-03-01", None, maker)
    with pytest.raises(WithdrawnError):
        project.build()
    found = status_of(project)
    assert states(found)["2024-03-01"] == "withdrawn"
    assert "labels of yesterday" in reasons(found)["2024-03-01"]
    restore(project.env, "clicks", "2024-03-01", None, maker)
    found = status_of(project)
    assert (states(found)["2024-03-01"], reasons(found)["2024-03-01"]) == ("published", "")


def test_another_error_than_that_of_a_withdrawal_is_a_failure_all_the_same(tmp_path):
    project = make_project(tmp_path)
    project.prebuilt()
    withdraw(project.env, "clicks", "2024-03-01", None, Maker("ada", "builder", "a doubt"))
    project.edit("return [{", "return 1 / 0, [{", file="preprocess.py")
    with pytest.raises(TrainFeedError):
        project.build(rebuild="right labels")
    assert states(status_of(project))["2024-03-01"] == "failed"


def test_a_record_that_is_closed_to_this_account_is_a_doubt_and_no_failure(days, monkeypatch):
    from trainfeed.errors import AccessDeniedError
    from trainfeed.look.status import report
    from trainfeed.versions import DatasetFolder

    def refuse(folder, name):
        raise AccessDeniedError("permission denied")

    first, second, *_ = days.first(2)
    publish(days.folder, first)
    ended = [first.name, second.name]
    monkeypatch.setattr(DatasetFolder, "unpublished_intervals", lambda _: ended)
    monkeypatch.setattr(report, "read_unpublished", refuse)
    found = days.status(second.end)
    assert states(found) == {first.name: "published", second.name: "missing"}
    assert reasons(found)[first.name] == ""
    (doubt,) = [each for each in found.doubts if "closed" in each]
    assert doubt == (
        "how the last attempt ended is not known where its record is closed to this account:"
        " 2026-01-01 and 1 more"
    )
