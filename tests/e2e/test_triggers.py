"""Every way to start a run makes a run that does something, and says for which interval.

Triggers with a logical date of today, of 2012 and with none, as the form and REST make them; the
schedule; a backfill over both ends. The data sets are those that ``trainfeed new`` makes: one that
catches up, one that has an end, one that has none.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from services.airflow import AirflowOptions, AirflowStack
from tests.e2e.ways import until
from trainfeed.cli.scaffold import new_dataset
from trainfeed.conversion import convert
from trainfeed.samples import Field, Schema
from trainfeed.versions import DatasetFolder, init_root
from trainfeed.versions.overrides import overrides_of

ENDED, ENDLESS, BACKFILLED = "build.clicks", "build.views", "build.visits"
CHOOSING = "build.hits"
NAMES = ["2026-01-01", "2026-01-02", "2026-01-03"]
DAYS = [datetime.fromisoformat(f"{name}T00:00:00+00:00") for name in NAMES]
LONG_AGO = datetime(2012, 5, 1, tzinfo=UTC)
DATES = pytest.mark.parametrize("date", ["now", "2012", None])
START_S, TIMEOUT_S = 300.0, 180.0

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    """New data sets, and the places that they are built in."""
    folder = tmp_path_factory.mktemp("triggers")
    for name in ("clicks", "views", "visits", "hits"):
        new_dataset(folder / "datasets", name)
        spec = folder / "datasets" / name / "dataset.yaml"
        text = spec.read_text()
        if name == "clicks":
            assert "\ncatchup: false " in text
            text = text.replace("\ncatchup: false ", "\ncatchup: true ")
        if name == "views":
            text = re.sub("\nend: .*", "", text)
        if name == "hits":
            text = with_parameters(spec.parent, text)
        spec.write_text(text)
    for place in ("landing", "work", "files"):
        (folder / place).mkdir()
    init_root(folder / "root")
    samples = ({"label": number} for number in range(40))
    schema = Schema((Field("label", "int64"),))
    convert(folder / "files" / "from", lambda: samples, 2, "raw", schema=schema)
    return folder


def with_parameters(folder, text):
    """Give the function of a new data set a parameter: how many of seven offsets do not count."""
    code, head = folder / "preprocess.py", "def make_sample(record, lookups):\n"
    line = "    row = record.json()"
    check = (
        f'    if record.offset % 7 < parameters["out"]:\n        return Filtered("early")\n{line}'
    )
    source = code.read_text()
    assert head in source
    source = source.replace(head, "def make_sample(record, lookups, parameters):\n")
    code.write_text(source.replace(line, check))
    function = '{function: "preprocess:make_sample"}'
    assert function in text
    return text.replace(function, '{function: "preprocess:make_sample", parameters: {out: 0}}')


@pytest.fixture(scope="module")
def client(ground):
    connections = {
        "CEPHFS_DEFAULT": {"conn_type": "generic", "extra": {"path": str(ground / "root")}},
        "HDFS_DEFAULT": {
            "conn_type": "file",
            "extra": {place: str(ground / place) for place in ("landing", "work")},
        },
        "CONVERT_DEFAULT": {
            "conn_type": "generic",
            "extra": {
                "inputs": [str(ground / "files")],
                "outputs": [str(ground / "files")],
                "work": str(ground / "work"),
            },
        },
    }
    environ = {
        "TRAINFEED_DATASETS": str(ground / "datasets"),
        **{f"AIRFLOW_CONN_{name}": json.dumps(value) for name, value in connections.items()},
    }
    # Not below pytest's folder: PostgreSQL runs as another account, which may not pass there.
    home = Path(tempfile.mkdtemp(prefix="trainfeed-e2e-"))
    stack = AirflowStack(home, environ=environ, options=AirflowOptions())
    try:
        stack.start()
        stack.wait(START_S)
        stack.wait_for_dags(
            [ENDED, ENDLESS, BACKFILLED, CHOOSING, "train.clicks", "convert", "housekeeping"]
        )
        yield stack.client
    finally:
        stack.stop()
        shutil.rmtree(home, ignore_errors=True)


def logical(date):
    """A date that no other run has: one of a logical date is enough for Airflow."""
    known = {"now": datetime.now(UTC), "2012": LONG_AGO + timedelta(seconds=len(TAKEN)), None: None}
    TAKEN.append(date)
    return known[date]


TAKEN: list[str | None] = []


def ended(client, dag_id, conf=None, **options):
    """Trigger a run, wait for it, and return it with the states of its tasks."""
    client.unpause(dag_id)
    (run,) = client.wait_for([client.trigger(dag_id, conf, **options)], TIMEOUT_S)
    tasks = client.task_instances(dag_id, run.run_id)
    return run, {task.task_id: task.state for task in tasks}


def said(client, run, task_id):
    tasks = client.task_instances(run.dag_id, run.run_id)
    return client.log(run.dag_id, run.run_id, next(t for t in tasks if t.task_id == task_id))


@pytest.fixture(scope="module")
def scheduled(client):
    """The three runs that catch-up makes."""
    client.unpause("train.clicks")
    client.unpause(ENDED)
    until(lambda: len(client.dag_runs(ENDED)) == len(NAMES), "the runs of the schedule")
    return client.wait_for(client.dag_runs(ENDED), TIMEOUT_S)


def test_catching_up_makes_exactly_the_intervals_and_names_runs_after_them(scheduled):
    assert [run.state for run in scheduled] == ["success"] * 3
    assert sorted(run.run_id for run in scheduled) == [f"scheduled__{name}" for name in NAMES]
    assert {run.logical_date: run.note for run in scheduled} == dict(zip(DAYS, NAMES, strict=True))


@DATES
def test_a_triggered_run_builds_its_interval_whatever_its_logical_date(client, scheduled, date):
    conf = {"window_start": "2026-01-02", "rebuild": f"triggered with {date}"}
    run, states = ended(client, ENDED, conf, logical_date=logical(date))
    assert (run.state, run.note) == ("success", "2026-01-02")
    assert set(states.values()) == {"success"}
    report = client.xcom(run, "publish")
    assert (report["verdict"], report["interval"]) == ("built", "2026-01-02")


@pytest.mark.parametrize("date", ["now", "2012"])
def test_a_triggered_run_without_a_window_fails_and_names_what_it_meant(client, scheduled, date):
    run, states = ended(client, ENDED, logical_date=logical(date))
    assert (run.state, states["plan"], run.note) == ("failed", "failed", None)
    log = said_of_failure(client, run)
    start, end = run.data_interval
    assert f"[{start:%Y-%m-%dT%H:%M:%SZ}, {end:%Y-%m-%dT%H:%M:%SZ})" in log
    assert "window_start is empty" in log
    assert "from 2026-01-01 to 2026-01-03" in log


def said_of_failure(client, run):
    """The whole log of the failed task, with what the lines have beside their text."""
    tasks = client.task_instances(run.dag_id, run.run_id)
    task = next(task for task in tasks if task.state == "failed")
    return client.log(run.dag_id, run.run_id, task)


def test_a_run_without_date_and_window_says_what_to_set(client, scheduled):
    run, states = ended(client, ENDED)
    assert (run.state, states["plan"]) == ("failed", "failed")
    assert "set window_start to a tick of the schedule" in said_of_failure(client, run)


def test_an_endless_set_builds_yesterday_and_says_so(client):
    run, states = ended(client, ENDLESS, {"dry_run": True}, logical_date=datetime.now(UTC))
    yesterday = f"{run.logical_date - timedelta(days=1):%Y-%m-%d}"
    log = said(client, run, "plan")
    assert f"interval {yesterday} of views, by the data interval of the run" in log
    assert "the last interval that had ended at its logical date" in log
    assert (run.note, states["plan"]) == (yesterday, "success")


def test_a_backfill_over_both_ends_makes_the_valid_days_with_notes(client):
    client.backfill(BACKFILLED, DAYS[0] - timedelta(days=9), DAYS[-1] + timedelta(days=9))
    client.unpause(BACKFILLED)
    until(lambda: len(client.dag_runs(BACKFILLED)) >= len(NAMES), "the runs of the backfill")
    runs = client.wait_for(client.dag_runs(BACKFILLED), TIMEOUT_S)
    assert {run.run_type for run in runs} == {"backfill"}
    assert sorted(run.note for run in runs) == NAMES
    assert {run.state for run in runs} == {"success"}


def test_parameters_of_a_form_are_a_decision_of_the_user_that_later_runs_follow(client, ground):
    def build(**conf):
        given = {"window_start": "2026-01-02", "training": "none", **conf}
        run, _ = ended(client, CHOOSING, given, logical_date=None)
        assert run.state == "success", said_of_failure(client, run)
        return client.xcom(run, "publish")

    plain = build()
    chosen = build(parameters="out=5", parameters_why="a test", rebuild="a test")
    assert chosen["filtered"] > plain["filtered"]
    assert chosen["samples"] < plain["samples"] / 2
    (decision,) = overrides_of(DatasetFolder(ground / "root", "hits"), "2026-01-02")
    assert (decision.parameters, decision.who) == ({"out": 5}, "admin")
    assert build()["verdict"] == "identical"
    run, states = ended(
        client, CHOOSING, {"window_start": "2026-01-02", "parameters": "ouut=5", "rebuild": "why"}
    )
    assert (run.state, states["plan"]) == ("failed", "failed")
    assert "did you mean 'out'" in said_of_failure(client, run)


def test_training_runs_have_their_partition_as_note(client, scheduled):
    until(lambda: len(client.dag_runs("train.clicks")) >= len(NAMES), "the training runs")
    runs = [run for run in client.dag_runs("train.clicks") if run.partition_key]
    started = [run for run in client.wait_for(runs, TIMEOUT_S) if run.started_at]
    assert started
    assert all(run.note == run.partition_key for run in started)


def test_a_note_of_a_person_is_kept(client, scheduled):
    conf = {"window_start": "2026-01-03"}
    run, _ = ended(client, ENDED, conf, note="asked for by the evaluation")
    assert (run.state, run.note) == ("success", "asked for by the evaluation")


@DATES
def test_training_can_be_triggered_whatever_the_logical_date(client, scheduled, date):
    conf = {"window_start": "2026-01-02"}
    run, states = ended(client, "train.clicks", conf, logical_date=logical(date))
    assert (run.state, run.note) == ("success", "2026-01-02")
    assert states == dict.fromkeys(("train", "evaluate", "promote"), "success")


@DATES
def test_housekeeping_sweeps_whatever_the_logical_date(client, date):
    run, states = ended(client, "housekeeping", {"dry_run": True}, logical_date=logical(date))
    assert (run.state, states) == ("success", {"sweep": "success", "shared_storage": "skipped"})


@DATES
def test_files_are_converted_whatever_the_logical_date(client, ground, date):
    files = ground / "files"
    conf = {
        "input": str(files / "from" / "raw-*"),
        "output": str(files / f"to-{date}"),
        "shards": 2,
    }
    run, states = ended(client, "convert", conf, logical_date=logical(date))
    assert run.state == "success"
    assert set(states.values()) == {"success"}
