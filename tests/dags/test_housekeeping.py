"""The DAG ``housekeeping``: off until it is switched on, and one sweep of all data sets."""

from __future__ import annotations

import json
import os
import time
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowSkipException,
    ParamValidationError,
)

from tests.unit.training.points import spec
from trainfeed.training import kept_jobs as abandoned
from trainfeed.training.jobs import JobPlacement, JobRecord
from trainfeed.training.kept_jobs import KeptJob
from trainfeed.versions import init_root

DAY_S = 86_400
LEFTOVER = "clicks/_staging/0123456789abcdef-g0001/shard"

# Airflow's own reading of .airflowignore.
pytestmark = pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")


@pytest.fixture
def dag(load):
    bag = load("dags/housekeeping.py")
    assert bag.import_errors == {}
    return bag.dags["housekeeping"]


@pytest.fixture
def leftover(tmp_path, monkeypatch):
    """A file of a build that was abandoned 60 hours ago, and the connections that lead there."""
    places = {name: str(tmp_path / name) for name in ("path", "landing", "work")}
    for name, extra in (("HDFS", ("landing", "work")), ("CEPHFS", ("path",))):
        value = {"conn_type": "file", "extra": {key: places[key] for key in extra}}
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}_DEFAULT", json.dumps(value))
    init_root(tmp_path / "path")
    file = tmp_path / "path" / LEFTOVER
    file.parent.mkdir(parents=True)
    file.write_bytes(b"12345")
    then = time.time() - 2.5 * DAY_S
    for path in (file, file.parent):
        os.utime(path, (then, then))
    return file


def sweep(dag, pushed=None, **params):
    pushed = {} if pushed is None else pushed
    ti = SimpleNamespace(xcom_push=lambda key, value: pushed.update({key: value}))
    values = {**dag.params.dump(), **params}
    return dag.get_task("sweep").execute({"params": values, "ti": ti})


def test_it_is_off_until_somebody_switches_it_on(dag):
    assert dag.is_paused_upon_creation
    assert (dag.catchup, dag.max_active_runs) == (False, 1)


def test_leftovers_stay_for_three_days(dag, leftover):
    assert sweep(dag) == {"leftovers": 0, "bytes": 0}
    assert leftover.exists()
    assert sweep(dag, older_than=48) == {"leftovers": 1, "bytes": 5}
    assert not leftover.parent.exists()


def test_a_dry_run_names_them_in_the_log(dag, leftover, caplog):
    caplog.set_level("INFO")
    assert sweep(dag, older_than=48, dry_run=True) == {"leftovers": 1, "bytes": 5}
    assert leftover.exists()
    assert f"{leftover.parent}, 5 bytes, last touched" in caplog.text


def test_a_parameter_that_nobody_knows_removes_nothing(dag, leftover):
    with pytest.raises(AirflowFailException, match=r"got 'dryrun'.*did you mean 'dry_run'\?"):
        sweep(dag, pushed := {}, older_than=48, dryrun=True)
    assert leftover.exists()
    assert pushed["failure"]["error"] == "ConfigError"


def test_a_missing_connection_is_named(dag, leftover, monkeypatch):
    monkeypatch.delenv("AIRFLOW_CONN_CEPHFS_DEFAULT")
    with pytest.raises(Exception, match="connection 'cephfs_default' is not defined"):
        sweep(dag)


def test_launches_on_a_cluster_are_swept_although_a_connection_of_another_job_is_gone(
    dag, leftover, monkeypatch, caplog
):
    record = JobRecord(leftover.parent)
    jobs = [
        KeptJob(leftover.parents[2], record, of_cluster(connection=name))
        for name in ("kubernetes_default", "kubernetes_old")
    ]
    monkeypatch.setattr(abandoned, "abandoned_launches", lambda *_, **__: jobs)
    settings = {"namespace": "trainings"}
    value = json.dumps({"conn_type": "generic", "extra": settings})
    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", value)
    asked = []

    def removed(jobs, clusters, *, dry_run):
        asked.append((jobs, dict(clusters), dry_run))
        return [abandoned.LeftObject("kubernetes_default: configmaps/x", "2026-01-01T00:00:00")]

    monkeypatch.setattr(abandoned, "sweep_launches", removed)
    assert sweep(dag) == {"leftovers": 1, "bytes": 0}
    assert asked == [(jobs, {"kubernetes_default": settings}, False)]
    assert "cluster 'kubernetes_old' are not swept" in caplog.text
    assert "connection 'kubernetes_old' is not defined" in caplog.text


def of_cluster(connection):
    placement = JobPlacement(launcher="indexed-job", connection=connection)
    return spec(ranks=2).model_copy(update={"placement": placement})


@pytest.mark.parametrize("hours", [23, -1, "72", None])
def test_the_form_refuses_what_would_take_files_of_running_builds(dag, hours):
    with pytest.raises(ParamValidationError):
        dag.params.get_param("older_than").resolve(hours)


def look(dag, **params):
    ti = SimpleNamespace(xcom_push=lambda **_: None)
    values = {**dag.params.dump(), **params}
    return dag.get_task("shared_storage").execute({"params": values, "ti": ti})


def test_what_users_removed_from_their_homes_fails_a_task_of_its_own(dag, monkeypatch, caplog):
    lost = ["/mnt/pfs/dc1/home/alice: quota of bytes: expected 5, got none"]
    monkeypatch.setattr("trainfeed.serving.pfs.users.lost_attributes", lambda *_: lost)
    with pytest.raises(AirflowFailException, match="quota of bytes"):
        look(dag, mount="/mnt", datacenter="dc1")
    assert lost[0] in caplog.text
    lost.clear()
    look(dag, mount="/mnt", datacenter="dc1")


def test_without_a_mount_there_is_nothing_to_look_at(dag):
    with pytest.raises(AirflowSkipException):
        look(dag)
    with pytest.raises(AirflowFailException, match="data centre"):
        look(dag, mount="/mnt")
