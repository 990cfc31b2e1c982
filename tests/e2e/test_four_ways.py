"""The same three days, built four ways from one topic: equal bytes, nothing lost, nothing doubled.

Each way starts from an empty root, landing and work, finds the boundaries by itself and reads the
source. Cases OR-01, OR-07, OR-10, CE-03 (observer) and promises P1, P2, P5, P6, P12.
"""

from __future__ import annotations

import os
import uuid
from contextlib import nullcontext
from pathlib import Path

import pytest

from services.cephfs import CephFS
from tests.e2e.ways import (
    BUILD,
    DAYS,
    FIRST,
    NAMES,
    TRAIN,
    Ground,
    Observer,
    contents,
    most_at_once,
    until,
)
from tests.oracle.accounting import check

# One point per stage, all after its first byte of output.
KILLED = (
    "plan.after_save",
    "ingest.after_batch",
    "preprocess.before_spill",
    "convert.before_sync",
    "check.before_rename",
    "publish.after_rename",
    "train.after_ranks",
)

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def by_command_line(on_broker, tmp_path_factory):
    ground = Ground.make(tmp_path_factory.mktemp("cli"), on_broker.kafka)
    reports = [ground.command("build", "flights", "--interval", name) for name in NAMES]
    return ground, reports


@pytest.fixture(scope="module")
def by_schedule(on_broker, tmp_path_factory):
    edits = [("catchup: false", "catchup: true"), ("end: 2014-01-01", "end: 2013-01-03")]
    ground = Ground.make(tmp_path_factory.mktemp("schedule"), on_broker.kafka, edits=edits)
    with ground.airflow() as airflow:
        airflow.client.unpause(BUILD)
        until(lambda: len(airflow.client.dag_runs(BUILD)) == 3, "the scheduled runs")
        runs = airflow.client.dag_runs(BUILD)
        assert {run.run_type for run in runs} == {"scheduled"}
        reports = airflow.finish(runs, trainings=3)
        # Nothing beyond the spec's last tick.
        assert len(airflow.client.dag_runs(BUILD)) == 3
    return ground, reports


@pytest.fixture(scope="module")
def by_trigger(on_broker, tmp_path_factory):
    """REST triggers for three days; at the same time a backfill of the first."""
    ground = Ground.make(tmp_path_factory.mktemp("trigger"), on_broker.kafka)
    with ground.airflow() as airflow:
        runs = [airflow.client.trigger(BUILD, {"window_start": name}) for name in NAMES]
        airflow.client.backfill(BUILD, FIRST, FIRST)
        airflow.client.unpause(BUILD)
        until(lambda: len(airflow.client.dag_runs(BUILD)) == 4, "the backfill's run")
        backfilled = [r for r in airflow.client.dag_runs(BUILD) if r.run_type == "backfill"]
        reports = airflow.finish([*runs, *backfilled], trainings=3)
    return ground, reports


@pytest.fixture(scope="module")
def by_backfill(on_broker, tmp_path_factory):
    """A backfill that publishes on CephFS, with every stage killed once, under an observer."""
    path = tmp_path_factory.mktemp("backfill")
    ceph = os.environ.get("TEST_CEPHFS_PATH")
    name = f"e2e-{uuid.uuid4().hex}"
    root = Path(ceph) / name if ceph else None
    ground = Ground.make(path, on_broker.kafka, root=root, faults=KILLED)
    eyes = second_mount(path / "second") if ceph else nullcontext()
    with eyes as mount:
        seen_from = type(ground.folder)(mount / name if ceph else ground.root, "flights")
        with Observer(seen_from) as observer, ground.airflow() as airflow:
            airflow.client.unpause(BUILD)
            airflow.client.backfill(BUILD, DAYS[0], DAYS[-1], max_active_runs=2)
            reports = airflow.finish(airflow.client.dag_runs(BUILD), trainings=3)
            at_once = most_at_once(airflow.client.dag_runs(BUILD))
            tries = [
                task.try_number
                for run in airflow.client.dag_runs(TRAIN)
                for task in airflow.client.task_instances(TRAIN, run.run_id)
                if task.task_id == "train"
            ]
    return ground, reports, observer, tries, at_once


class second_mount:  # noqa: N801 - reads as a context manager
    """Another client of the same CephFS: it sees what has really been published."""

    def __init__(self, path):
        self._path = path
        self._ceph = CephFS()

    def __enter__(self):
        self._ceph.mount(self._path)
        return self._path

    def __exit__(self, *error):
        self._ceph.unmount(self._path)


@pytest.fixture(scope="module")
def from_recorded(recorded, tmp_path_factory):
    ground = Ground.make(tmp_path_factory.mktemp("from-recorded"), recorded.kafka)
    reports = [ground.command("build", "flights", "--interval", name) for name in NAMES]
    return ground, reports


def test_the_command_line_accounts_for_every_acknowledged_event(by_command_line, on_broker):
    ground, reports = by_command_line
    counts = check([v.path for v in ground.versions().values()], on_broker.ledger)
    assert counts["events"] == sum(report["source_reads"] for report in reports) > 2000
    assert counts["quarantined"] == counts["planted"] > 0


@pytest.mark.nightly
def test_a_schedule_with_catch_up_gives_equal_bytes(by_schedule, by_command_line):
    ground, reports = by_schedule
    assert all(report["source_reads"] > 0 for report in reports)
    assert contents(ground.versions()) == contents(by_command_line[0].versions())
    assert len(ground.jobs()) == 3


@pytest.mark.nightly
def test_triggered_runs_give_equal_bytes(by_trigger, by_command_line):
    ground, _ = by_trigger
    assert contents(ground.versions()) == contents(by_command_line[0].versions())


@pytest.mark.nightly
def test_two_runs_of_one_day_at_once_make_one_generation_and_one_job(by_trigger):
    ground, reports = by_trigger
    first = [report for report in reports if report["interval"] == NAMES[0]]
    assert len(first) == 2
    assert {report["generation"] for report in first} == {"g0001"}
    assert ground.folder.last_generation(NAMES[0]) == 1
    assert len(ground.jobs()) == 3


def test_a_backfill_with_every_stage_killed_once_gives_equal_bytes(by_backfill, by_command_line):
    ground, reports, observer, tries, at_once = by_backfill
    assert sorted(p.name for p in (ground.path / "fired").iterdir()) == sorted(
        f"{point}.fired" for point in KILLED
    )
    for stage in ("plan", "ingest", "preprocess", "convert", "check", "publish"):
        assert max(report["tries"][stage] for report in reports) == 2
    assert max(tries) == 2
    assert at_once == 2
    assert contents(ground.versions()) == contents(by_command_line[0].versions())
    assert len(ground.jobs()) == 3
    assert observer.looks > 50
    assert observer.violations == []
    assert len(observer.seen) == 3


@pytest.mark.nightly
def test_every_way_accounts_for_every_acknowledged_event(
    by_schedule, by_trigger, by_backfill, on_broker
):
    for ground, *_ in (by_schedule, by_trigger, by_backfill):
        counts = check([v.path for v in ground.versions().values()], on_broker.ledger)
        assert counts["quarantined"] == counts["planted"] > 0


def test_a_recorded_topic_gives_the_bytes_of_the_broker(from_recorded, by_command_line, recorded):
    ground, reports = from_recorded
    assert all(report["source_reads"] > 0 for report in reports)
    assert contents(ground.versions()) == contents(by_command_line[0].versions())
    check([version.path for version in ground.versions().values()], recorded.ledger)


@pytest.mark.nightly
def test_every_way_trained_the_same_jobs_to_the_same_metrics(by_schedule, by_trigger, by_backfill):
    results = [
        {
            path.parent.name: path.read_bytes()
            for path in ground.folder.path.glob("training/*/*/result.json")
        }
        for ground, *_ in (by_schedule, by_trigger, by_backfill)
    ]
    assert results[0] == results[1] == results[2]
    assert len(results[0]) == 3
