"""flights by DAG with its training on a real cluster: built, trained in pods, judged, promoted.

The same days are trained by the local launcher, and the metrics are equal to the last bit.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

from services.kubernetes import IMAGE, NAMESPACE, Kubernetes
from tests.e2e.ways import BUILD, NAMES, TRAIN, LocalGround
from trainfeed.models import PROD, ModelsFolder, current

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]

LAUNCHERS = ("local", "indexed-job")


@pytest.fixture(scope="module")
def cluster():
    return Kubernetes(Path(os.environ["TEST_KUBERNETES_HOME"]))


def ground_of(launcher, recorded, cluster, path):
    ground = LocalGround.make(path, recorded.kafka, edits=[("launcher: local", launcher)])
    settings = {
        "kubeconfig": str(cluster.files.kubeconfig("trainfeed")),
        "namespace": NAMESPACE,
        "root": {"path": "/pfs/dataset", "host_path": str(ground.root)},
        "image": IMAGE,
        "images": ["trainfeed/*"],
    }
    connection = json.dumps({"conn_type": "generic", "extra": settings})
    return replace(ground, environ={"AIRFLOW_CONN_KUBERNETES_DEFAULT": connection})


@pytest.fixture(scope="module")
def trained(recorded, cluster, tmp_path_factory):
    """By launcher: the ground, reports of the tasks by day, prod before and after a rollback."""
    return {
        launcher: train(
            ground_of(f"launcher: {launcher}", recorded, cluster, tmp_path_factory.mktemp(launcher))
        )
        for launcher in LAUNCHERS
    }


def train(ground):
    with ground.airflow() as airflow:
        client = airflow.client
        airflow.stack.wait_for_dags(["models"], 300)
        client.unpause("models")
        client.unpause(BUILD)
        begun = time.monotonic()
        # One after the other: a model of a later day is not replaced by that of an earlier one.
        for count, name in enumerate(NAMES, start=1):
            airflow.finish([client.trigger(BUILD, {"window_start": name})], trainings=count)
        seconds = time.monotonic() - begun
        runs = {run.partition_key: run for run in client.dag_runs(TRAIN)}
        found = {
            name: {task: client.xcom(run, task) for task in ("train", "evaluate", "promote")}
            for name, run in runs.items()
        }
        took = {name: durations(client, run) for name, run in runs.items()}
        before = current(ModelsFolder(ground.root).known("flights"), PROD)
        form = {"model": "flights", "why": "to see", "action": "rollback", "version": None}
        (run,) = airflow.succeed([client.trigger("models", form)])
        rolled = client.xcom(run, "change")["prod"]
    print(json.dumps({"seconds": round(seconds, 1), "tasks": took}))  # noqa: T201 - the figures
    return ground, found, before, rolled


def durations(client, run):
    tasks = client._call("GET", f"/dags/{TRAIN}/dagRuns/{quote(run.run_id)}/taskInstances")
    return {task["task_id"]: task["duration"] for task in tasks["task_instances"]}


def test_three_days_are_trained_once_each(trained):
    for launcher in LAUNCHERS:
        ground, found, *_ = trained[launcher]
        assert sorted(found) == NAMES
        assert len(ground.jobs()) == 3
        assert {each["train"]["verdict"] for each in found.values()} == {"ran"}


def test_the_cluster_gives_the_metrics_of_the_local_launcher(trained):
    local, remote = (trained[launcher][1] for launcher in LAUNCHERS)
    assert {n: each["train"]["metrics"] for n, each in local.items()} == {
        n: each["train"]["metrics"] for n, each in remote.items()
    }


def test_the_newest_day_is_promoted_and_rolled_back(trained):
    for launcher in LAUNCHERS:
        ground, found, before, rolled = trained[launcher]
        assert before.manifest.job.interval == NAMES[-1]
        assert before.path.name == found[NAMES[-1]]["promote"]["version"]
        now = current(ModelsFolder(ground.root).known("flights"), PROD)
        assert now.path.name == rolled != before.path.name
