"""Waiting for a folder of logs: the place of the wait, and its end."""

from __future__ import annotations

import asyncio
import shutil
from datetime import UTC, datetime, timedelta

import pytest
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowRescheduleException,
    TaskDeferred,
)

from operators.connections import environment_from_connections
from operators.logs_complete import LogsCompleteSensor, LogsCompleteTrigger
from trainfeed.errors import ConfigError, StorageError
from trainfeed.files.stores.local import LocalFileSystem
from trainfeed.versions import init_root

DAY = {
    "data_interval_start": datetime(2026, 1, 5, tzinfo=UTC),
    "data_interval_end": datetime(2026, 1, 6, tzinfo=UTC),
}
KAFKA = "source: {kafka: {topic: clicks, connection: kafka_clicks}}"
# The day of the tests is long past: only a long wait has not ended by now.
LOGS = 'source: {logs: {path: "/logs/dt={start:%Y-%m-%d}", wait: 36500d}}'


@pytest.fixture
def spec(clicks):
    """The specification file, of a data set of log files."""
    path = clicks / "dataset.yaml"
    path.write_text(path.read_text().replace(KAFKA, LOGS))
    return path


@pytest.fixture
def folder(spec, tmp_path, set_connection):
    """The folder of the interval, without its marker."""
    places = {name: str(tmp_path / name) for name in ("landing", "work", "logs")}
    set_connection("hdfs_default", conn_type="file", host=None, extra=places)
    set_connection("cephfs_default", extra={"path": str(tmp_path / "root")})
    init_root(tmp_path / "root")
    folder = tmp_path / "logs" / "logs" / "dt=2026-01-05"
    folder.mkdir(parents=True)
    (folder / "part-0.txt").write_text("one\n")
    return folder


def sensor(**arguments):
    return LogsCompleteSensor(task_id="wait_for_logs", dataset="clicks", **arguments)


def events(trigger):
    async def collect():
        return [event async for event in trigger.run()]

    return asyncio.run(asyncio.wait_for(collect(), 30))


def test_a_complete_folder_is_not_waited_for(folder, make_context):
    (folder / "_SUCCESS").touch()
    assert sensor().execute(make_context(**DAY)) == 1


@pytest.mark.parametrize(("until", "files"), [("2026-01-05", 0), ("2026-01-06", 1)])
def test_the_day_of_a_topic_has_no_folder_to_wait_for(
    folder, spec, make_context, set_connection, until, files
):
    (folder / "_SUCCESS").touch()
    archive = LOGS.removeprefix("source: {").removesuffix("}")
    sources = f"sources: [{{{archive}, until: {until}}}, {KAFKA.removeprefix('source: ')}]"
    spec.write_text(spec.read_text().replace(LOGS, sources))
    set_connection("kafka_clicks", extra={"bootstrap.servers": "127.0.0.1:1"})
    assert sensor().execute(make_context(**DAY)) == files


def test_the_triggerer_waits_for_a_folder_that_is_not_complete(folder, make_context):
    with pytest.raises(TaskDeferred) as deferred:
        sensor(poll_s=30).execute(make_context("scheduled", **DAY))
    assert deferred.value.trigger.serialize() == (
        "operators.logs_complete.LogsCompleteTrigger",
        {
            "folder": f"file://{folder}",
            "marker": "_SUCCESS",
            "stable_s": None,
            "poll_s": 30,
            "longest_s": 3600.0,
            "bases": [""],
            "below": "",
        },
    )
    assert deferred.value.method_name == "execute"
    # The task ends the wait itself: Airflow restarts execution_timeout in every call of execute.
    assert deferred.value.timeout is None


def test_a_run_of_a_backfill_does_not_wait_and_says_how_to_go_on(folder, make_context):
    with pytest.raises(AirflowFailException, match=r"no _SUCCESS; .* once more, .*failed"):
        sensor().execute(make_context("backfill", **DAY))


def test_the_trigger_fires_when_the_wait_ends(folder, spec, make_context):
    days = (datetime.now(UTC) - datetime(2026, 1, 6, tzinfo=UTC)).days
    ends = datetime(2026, 1, 6, tzinfo=UTC) + timedelta(days=days + 1)
    spec.write_text(spec.read_text().replace("36500d", f"{days + 1}d"))
    with pytest.raises(TaskDeferred) as deferred:
        sensor().execute(make_context(**DAY))
    left_s = max(1.0, (ends - datetime.now(UTC)).total_seconds())
    assert deferred.value.trigger.longest_s <= min(left_s + 60, 3600)


@pytest.mark.parametrize("run_type", ["scheduled", "backfill", "manual"])
def test_every_run_fails_when_the_wait_has_ended(folder, spec, make_context, run_type):
    spec.write_text(spec.read_text().replace("36500d", "2d"))
    context = make_context(run_type, **DAY)
    with pytest.raises(AirflowFailException, match=r"from 2026-01-06T.* to 2026-01-08T"):
        sensor().execute(context)


@pytest.mark.parametrize("missing", ["empty", "skip"])
def test_what_may_be_missing_is_left_to_the_plan_when_the_wait_has_ended(
    folder, spec, make_context, missing
):
    shutil.rmtree(folder)
    spec.write_text(spec.read_text().replace("36500d", f"2d, missing: {missing}"))
    assert sensor().execute(make_context(**DAY)) == 0


def test_a_file_system_that_is_down_when_the_wait_has_ended_is_an_error(
    folder, spec, make_context, monkeypatch
):
    def exists(self, path):
        raise StorageError("safe mode")

    monkeypatch.setattr(LocalFileSystem, "exists", exists)
    spec.write_text(spec.read_text().replace("36500d", "2d"))
    with pytest.raises(StorageError, match="safe mode"):
        sensor().execute(make_context(**DAY), event={"folder": f"file://{folder}"})


def test_the_rule_travels_with_the_trigger(folder, spec, make_context):
    spec.write_text(spec.read_text().replace('d}", ', 'd}", stable: 10m, '))
    with pytest.raises(TaskDeferred) as deferred:
        sensor().execute(make_context(**DAY))
    _, arguments = deferred.value.trigger.serialize()
    assert (arguments["marker"], arguments["stable_s"]) == (None, 600)


def test_without_a_triggerer_the_task_is_called_again(folder, make_context):
    before = datetime.now(UTC)
    with pytest.raises(AirflowRescheduleException) as later:
        sensor(deferrable=False, poll_s=45).execute(make_context(**DAY))
    assert before + timedelta(seconds=45) <= later.value.reschedule_date


def test_a_file_system_that_is_down_when_the_trigger_fires_costs_no_try(
    folder, make_context, monkeypatch
):
    def exists(self, path):
        raise StorageError("safe mode")

    monkeypatch.setattr(LocalFileSystem, "exists", exists)
    with pytest.raises(TaskDeferred):
        sensor().execute(make_context(**DAY), event={"folder": f"file://{folder}"})
    with pytest.raises(StorageError, match="safe mode"):
        sensor().execute(make_context(**DAY))


def test_a_triggered_run_for_the_future_says_when_its_interval_ends(folder, spec, make_context):
    spec.write_text(spec.read_text().replace("end: 2026-01-31", "end: 2998-01-31"))
    context = make_context("manual", params={"window_start": "2998-01-05"})
    with pytest.raises(AirflowFailException, match=r"interval 2998-01-05 .* ends at 2998-01-06"):
        sensor().execute(context)


def test_a_triggered_run_says_what_is_missing_and_fails(folder, make_context):
    context = make_context("manual", params={"window_start": "2026-01-05"})
    with pytest.raises(AirflowFailException, match="it has no _SUCCESS; nothing was read"):
        sensor().execute(context)


def test_a_folder_that_can_never_be_read_fails_at_once(folder, make_context):
    (folder / "part-1.xz").touch()
    (folder / "_SUCCESS").touch()
    with pytest.raises(AirflowFailException, match="expected a plain file or one of"):
        sensor().execute(make_context(**DAY))


def test_the_task_looks_again_when_the_trigger_fires(folder, make_context):
    """The marker may have been removed in between."""
    with pytest.raises(TaskDeferred):
        sensor().execute(make_context(**DAY), event={"folder": f"file://{folder}"})
    (folder / "_SUCCESS").touch()
    assert sensor().execute(make_context(**DAY), event={"folder": f"file://{folder}"}) == 1


def trigger(folder, **changes):
    arguments = {"folder": f"file://{folder}", "marker": "_SUCCESS", "stable_s": None}
    return LogsCompleteTrigger(**{**arguments, "poll_s": 0.01, **changes})


def test_a_trigger_fires_when_the_marker_appears(folder, monkeypatch):
    looks = []

    def exists(self, path, original=LocalFileSystem.exists):
        looks.append(path)
        if len(looks) == 3:
            (folder / "_SUCCESS").touch()
        return original(self, path)

    monkeypatch.setattr(LocalFileSystem, "exists", exists)
    (event,) = events(trigger(folder))
    assert event.payload == {"folder": f"file://{folder}"}
    assert len(looks) >= 3


def test_a_trigger_fires_when_nothing_changes_any_more(folder):
    assert len(events(trigger(folder, marker=None, stable_s=0.05))) == 1


def test_a_trigger_outlives_a_file_system_that_does_not_answer(folder, monkeypatch):
    looks = []

    def exists(self, path):
        looks.append(path)
        if len(looks) < 3:
            raise StorageError("safe mode")
        return True

    monkeypatch.setattr(LocalFileSystem, "exists", exists)
    assert len(events(trigger(folder))) == 1


def test_a_trigger_fires_after_a_while_for_connection_and_rule_may_have_changed(folder):
    assert len(events(trigger(folder, longest_s=0.03))) == 1


def test_a_trigger_that_an_earlier_version_left_in_the_database_goes_on(folder):
    arguments = {"folder": f"file://{folder}", "marker": "_SUCCESS", "stable_s": None}
    assert LogsCompleteTrigger(**arguments, poll_s=60).longest_s == 3600


def test_a_trigger_fires_when_waiting_is_in_vain(folder):
    (folder / "part-1.xz").touch()
    (folder / "_SUCCESS").touch()
    assert len(events(trigger(folder))) == 1


def test_a_trigger_comes_back_from_the_database_as_it_was(folder):
    path, arguments = trigger(folder).serialize()
    assert path == f"{LogsCompleteTrigger.__module__}.LogsCompleteTrigger"
    assert LogsCompleteTrigger(**arguments).serialize() == (path, arguments)


def test_a_published_interval_whose_logs_are_gone_is_not_waited_for(folder, make_context, tmp_path):
    version = tmp_path / "root" / "clicks" / "versions" / "2026-01-05" / "g0001"
    version.mkdir(parents=True)
    (version / "MANIFEST.json").write_text("{}")
    shutil.rmtree(folder)
    assert sensor().execute(make_context(**DAY)) == 0


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({}, "webhdfs://trainfeed@namenode:9870/"),
        ({"conn_type": "hdfs", "login": None, "port": None}, "hdfs://namenode:8020/"),
        (
            {"extra": {"landing": "/l", "work": "/w", "logs": "/archive"}},
            "webhdfs://trainfeed@namenode:9870/archive",
        ),
    ],
)
def test_a_connection_says_where_the_paths_of_logs_start(spec, set_connection, changes, place):
    set_connection("hdfs_default", **changes)
    assert environment_from_connections([], ["hdfs_default"]).logs == {"hdfs_default": place}


def test_logs_may_have_a_connection_of_their_own(spec, set_connection):
    set_connection("archive", conn_type="file", extra={"logs": "/mnt/archive"})
    env = environment_from_connections([], ["archive"])
    assert env.logs == {"archive": "file:///mnt/archive"}
    assert env.landing == "webhdfs://trainfeed@namenode:9870/landing"


def test_a_missing_connection_of_logs_is_named(spec):
    with pytest.raises(ConfigError, match="connection 'archive' is not defined"):
        environment_from_connections([], ["archive"])
