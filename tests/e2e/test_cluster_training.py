"""Data sets by DAG with their training on a real cluster: built, trained in pods, judged, promoted.

flights reads a recorded topic; the logs of digits lie on a real HDFS, and its versions and models
on a real CephFS where the machine has one. The same days are trained by the local launcher, and the
metrics are equal to the last bit.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from examples.digits.images import read_digits
from examples.digits.writer import write_days
from services._home import REPOSITORY
from services.kubernetes import IMAGE, NAMESPACE, Kubernetes
from tests.e2e.ways import NAMES, Ground, LocalGround
from trainfeed.files.stores import Location
from trainfeed.training.models import PROD, ModelsFolder, current, history

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]

LAUNCHERS = ("local", "indexed-job")
DAYS = {"flights": NAMES, "digits": ["2024-01-01", "2024-01-02", "2024-01-03"]}
TASKS = ("train", "evaluate", "promote")


@dataclass(frozen=True)
class Trained:
    """The outcome of one way to train all days of a data set, and to roll back once.

    Attributes:
        jobs: Number of jobs with a result.
        found: Day → task → report.
        prod: Day and version of the model that prod pointed to before the rollback.
        rolled: Version that prod points to afterwards, by the DAG and by the alias.
        promoted: Number of promotions of prod.
    """

    jobs: int
    found: dict[str, dict[str, Any]]
    prod: tuple[str, str]
    rolled: tuple[str, str]
    promoted: int


@pytest.fixture(scope="module")
def cluster():
    return Kubernetes(Path(os.environ["TEST_KUBERNETES_HOME"]))


@contextmanager
def ground_of(dataset, launcher, recorded, path) -> Iterator[Ground]:
    edit = ("launcher: local", f"launcher: {launcher}")
    if dataset == "flights":
        yield LocalGround.make(path, recorded.kafka, edits=[edit])
        return
    logs = f"/e2e/logs-{uuid.uuid4().hex}"
    ceph = os.environ.get("TEST_CEPHFS_PATH")
    root = Path(ceph) / f"e2e-{uuid.uuid4().hex}" if ceph else None
    edits = [edit, ("/logs/digits/", f"{logs}/")]
    digits = read_digits(REPOSITORY / "data" / "scikit-learn")
    hdfs = Location.parse(os.environ["TEST_WEBHDFS_URI"])
    write_days(digits, hdfs / logs.lstrip("/"), path / "digits.sqlite")
    try:
        yield Ground.make(path, recorded.kafka, root=root, edits=edits, dataset=dataset)
    finally:
        if root is not None:
            shutil.rmtree(root, ignore_errors=True)


def on_cluster(ground, cluster):
    """The ground, with a connection to the cluster, whose pods mount the publication root."""
    settings = {
        "kubeconfig": str(cluster.files.kubeconfig("trainfeed")),
        "namespace": NAMESPACE,
        "root": {"path": "/pfs/dataset", "host_path": str(ground.root)},
        "image": IMAGE,
        "images": ["trainfeed/*"],
    }
    connection = json.dumps({"conn_type": "generic", "extra": settings})
    return replace(ground, environ={"AIRFLOW_CONN_KUBERNETES_DEFAULT": connection})


@pytest.fixture(scope="module", params=DAYS)
def trained(request, recorded, cluster, tmp_path_factory):
    """Data set and, by launcher, the outcome of its trainings."""
    dataset, outcomes = request.param, {}
    for launcher in LAUNCHERS:
        path = tmp_path_factory.mktemp(launcher)
        with ground_of(dataset, launcher, recorded, path) as ground:
            outcomes[launcher] = train(on_cluster(ground, cluster), launcher)
    return dataset, outcomes


def train(ground, launcher):
    build_id, train_id = ground.dag_ids
    days = DAYS[ground.dataset]
    with ground.airflow() as airflow:
        client = airflow.client
        airflow.stack.wait_for_dags(["models"], 300)
        client.unpause("models")
        client.unpause(build_id)
        begun = time.monotonic()
        # One after the other: a model of a later day is not replaced by that of an earlier one.
        for count, name in enumerate(days, start=1):
            airflow.finish([client.trigger(build_id, {"window_start": name})], trainings=count)
        seconds = time.monotonic() - begun
        runs = {run.partition_key: run for run in client.dag_runs(train_id)}
        found = {n: {task: client.xcom(run, task) for task in TASKS} for n, run in runs.items()}
        tell(ground, launcher, seconds, [durations(client, run) for run in runs.values()])
        folder = ModelsFolder(ground.root).known(ground.dataset)
        before = current(folder, PROD)
        form = {"model": ground.dataset, "why": "to see", "action": "rollback", "version": None}
        (run,) = airflow.succeed([client.trigger("models", form)])
        rolled = client.xcom(run, "change")["prod"]
        current(folder, PROD).verify()
    return Trained(
        jobs=len(ground.jobs()),
        found=found,
        prod=(before.manifest.job.interval, before.path.name),
        rolled=(rolled, current(folder, PROD).path.name),
        promoted=sum(change.kind == "promote" for change in history(folder, PROD)),
    )


def durations(client, run):
    tasks = client.task_instances(run.dag_id, run.run_id)
    return {t.task_id: round((t.ended_at - t.started_at).total_seconds(), 1) for t in tasks}


def tell(ground, launcher, seconds, tasks):
    """Print the figures of docs/authors/measured.md."""
    figures = {"data set": ground.dataset, "launcher": launcher, "root": str(ground.root)}
    print(json.dumps({**figures, "seconds": round(seconds, 1), "tasks": tasks}))  # noqa: T201


def test_every_day_is_trained_once(trained):
    dataset, outcomes = trained
    for outcome in outcomes.values():
        assert sorted(outcome.found) == DAYS[dataset]
        assert outcome.jobs == len(DAYS[dataset])
        assert {each["train"]["verdict"] for each in outcome.found.values()} == {"ran"}


def test_the_cluster_gives_the_metrics_of_the_local_launcher(trained):
    _, outcomes = trained
    local, remote = (
        {name: (each["train"]["metrics"], each["evaluate"]["metrics"]) for name, each in o.items()}
        for o in (outcomes[launcher].found for launcher in LAUNCHERS)
    )
    assert local == remote


def test_every_model_passed_its_gate_and_from_the_second_day_on_met_the_promoted_one(trained):
    dataset, outcomes = trained
    for outcome in outcomes.values():
        gates = [each["evaluate"]["gate"] for _, each in sorted(outcome.found.items())]
        assert all(row["passed"] for gate in gates for row in gate["metrics"])
        assert [gate["promoted"] for gate in gates] == [None, "v0001", "v0002"]
        # flights has no function that would measure both models on the same data.
        has_function = dataset == "digits"
        assert [gate["compared"] for gate in gates] == [False, has_function, has_function]


def test_the_newest_day_is_promoted_and_rolled_back(trained):
    dataset, outcomes = trained
    for outcome in outcomes.values():
        newest = DAYS[dataset][-1]
        assert outcome.prod == (newest, outcome.found[newest]["promote"]["version"])
        assert outcome.promoted == len(DAYS[dataset])
        assert set(outcome.rolled) == {"v0002"}
