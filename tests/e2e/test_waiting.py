"""Folders of logs that do not come, in a real Airflow: they hold up no other interval.

The data sets have more holes than runs may be active. One waits for them by its schedule, one meets
them in a backfill, and one leaves them out.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from services.airflow import AirflowOptions, AirflowStack
from tests.e2e.ways import until
from trainfeed.versions import DatasetFolder, init_root, read_skip

# Of a machine that has much else to do.
TIMEOUT_S = 600.0
HOLES, DAYS = 4, 6
# The last day has ended, whenever the test runs.
LAST = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)
TICKS = [LAST - timedelta(days=day) for day in reversed(range(DAYS))]
NAMES = [f"{tick:%Y-%m-%d}" for tick in TICKS]
SPEC = """\
name: {name}
schedule: "@daily"
start: {first}
end: {last}
catchup: {catchup}
source: {{logs: {{path: "/{name}/dt={{start:%Y-%m-%d}}", {rule}}}}}
preprocess: {{function: "preprocess:sample"}}
schema: {{value: {{dtype: int64}}}}
split: {{train: 1}}
resources: {{max_active_runs: 2}}
"""
CODE = "def sample(record, lookups):\n    return {'value': int(record.value)}\n"
SETS = {
    "waits": ("true", "wait: 30d"),
    "refills": ("false", "wait: 30d"),
    "skips": ("false", "wait: 0s, missing: skip"),
}

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    """Three data sets, of which the first days have no folder of logs."""
    path = tmp_path_factory.mktemp("waiting")
    init_root(path / "root")
    for place in ("landing", "work"):
        (path / place).mkdir()
    for name, (catchup, rule) in SETS.items():
        folder = path / "datasets" / name
        folder.mkdir(parents=True)
        text = SPEC.format(name=name, first=NAMES[0], last=NAMES[-1], catchup=catchup, rule=rule)
        (folder / "dataset.yaml").write_text(text)
        (folder / "preprocess.py").write_text(CODE)
        for day in NAMES[HOLES:]:
            write_logs(path, name, day)
    return path


def write_logs(path, name, day):
    folder = path / "logs" / name / f"dt={day}"
    folder.mkdir(parents=True)
    (folder / "part-0").write_text("1\n2\n3\n")
    (folder / "_SUCCESS").touch()


@pytest.fixture(scope="module")
def client(ground):
    places = {place: str(ground / place) for place in ("landing", "work", "logs")}
    connections = {
        "CEPHFS_DEFAULT": {"conn_type": "generic", "extra": {"path": str(ground / "root")}},
        "HDFS_DEFAULT": {"conn_type": "file", "extra": places},
    }
    environ = {
        "TRAINFEED_DATASETS": str(ground / "datasets"),
        **{f"AIRFLOW_CONN_{name}": json.dumps(value) for name, value in connections.items()},
    }
    # Not below pytest's folder: PostgreSQL runs as another account, which may not pass there.
    home = Path(tempfile.mkdtemp(prefix="trainfeed-e2e-"))
    options = AirflowOptions(preload=("numpy", "pyarrow", "pydantic"))
    stack = AirflowStack(home, environ=environ, options=options)
    try:
        stack.start()
        stack.wait(TIMEOUT_S)
        stack.wait_for_dags([f"build.{name}" for name in SETS], TIMEOUT_S)
        yield stack.client
    finally:
        stack.stop()
        shutil.rmtree(home, ignore_errors=True)


def published(ground, name):
    return DatasetFolder(ground / "root", name).intervals()


def runs_of(client, name):
    """State of the run of every day."""
    runs = client.dag_runs(f"build.{name}")
    return {f"{run.data_interval[0]:%Y-%m-%d}": run.state for run in runs}


def tasks_of(client, name, day):
    """State of every task of the run of a day."""
    dag_id = f"build.{name}"
    (run,) = (r for r in client.dag_runs(dag_id) if f"{r.data_interval[0]:%Y-%m-%d}" == day)
    return {task.task_id: task.state for task in client.task_instances(dag_id, run.run_id)}


def refill(client, name):
    """Run a backfill over all days, one run at a time, to its end.

    The schedule has a run of the last day as well, so the backfill comes before it is switched on:
    a scheduler that makes a run which the API is just making ends itself:
    docs/operations/runbook.md.
    """
    dag_id = f"build.{name}"
    client.backfill(dag_id, TICKS[0], TICKS[-1], max_active_runs=1)
    client.unpause(dag_id)
    client.wait_for(client.dag_runs(dag_id), TIMEOUT_S)


def test_runs_of_the_schedule_that_wait_keep_no_other_from_being_built(client, ground):
    """Four wait, where two may work at once: the later days are built all the same."""
    client.unpause("build.waits")
    until(lambda: published(ground, "waits") == NAMES[HOLES:], "the later days", TIMEOUT_S)
    until(
        lambda: (
            runs_of(client, "waits")
            == dict.fromkeys(NAMES[:HOLES], "running") | dict.fromkeys(NAMES[HOLES:], "success")
        ),
        "the ends of their runs",
        TIMEOUT_S,
    )
    for day in NAMES[:HOLES]:
        assert tasks_of(client, "waits", day)["wait_for_logs"] == "deferred"


def test_a_run_that_waits_goes_on_when_its_logs_come(client, ground):
    write_logs(ground, "waits", NAMES[1])
    until(lambda: NAMES[1] in published(ground, "waits"), "the day that came late", TIMEOUT_S)


def test_runs_of_a_backfill_do_not_wait(client, ground):
    """A backfill of one run at a time meets four holes first, and builds what is behind them."""
    refill(client, "refills")
    assert published(ground, "refills") == NAMES[HOLES:]
    assert runs_of(client, "refills") == {
        **dict.fromkeys(NAMES[:HOLES], "failed"),
        **dict.fromkeys(NAMES[HOLES:], "success"),
    }


def test_an_interval_that_is_left_out_ends_green_without_an_event(client, ground):
    refill(client, "skips")
    assert set(runs_of(client, "skips").values()) == {"success"}
    assert published(ground, "skips") == NAMES[HOLES:]
    assert tasks_of(client, "skips", NAMES[0]) == {
        "wait_for_logs": "success",
        **dict.fromkeys(("plan", "ingest", "preprocess", "convert", "check", "publish"), "skipped"),
    }
    keys = [event["partition_key"] for event in client.asset_events("build.skips")]
    assert sorted(keys) == NAMES[HOLES:]
    folder = DatasetFolder(ground / "root", "skips")
    skips = [read_skip(folder, day) for day in NAMES]
    assert [skip is not None for skip in skips] == [True] * HOLES + [False] * (DAYS - HOLES)
    assert "the folder is not there" in skips[0].why


def test_a_trigger_builds_what_was_left_out_when_its_logs_have_come(client, ground):
    write_logs(ground, "skips", NAMES[0])
    run = client.trigger("build.skips", {"window_start": NAMES[0]})
    (ended,) = client.wait_for([run], TIMEOUT_S)
    assert ended.state == "success"
    assert NAMES[0] in published(ground, "skips")
    assert read_skip(DatasetFolder(ground / "root", "skips"), NAMES[0]) is None
