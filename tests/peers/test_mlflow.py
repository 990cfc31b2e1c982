"""Deliveries to a real ``mlflow server`` with a database of its own, read back with its client."""

import json
import os
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import mlflow
import pytest

from trainfeed.core import faults
from trainfeed.training.jobs import JobRecord, JobResult, JobSpec, JobVersion
from trainfeed.training.models import (
    CANDIDATE,
    PROD,
    Candidate,
    ModelJob,
    ModelsFolder,
    promote,
    register,
)
from trainfeed.training.tracking import Tracker, tracker_settings

START_S = 300
DELIVERED = {"mlflow": "delivered"}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("mlflow")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--workers", "1", "--backend-store-uri", f"sqlite:///{home}/mlflow.db"]
    command += ["--default-artifact-root", str(home / "artifacts")]
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
    with (home / "log").open("w") as log:
        server = subprocess.Popen(
            command,
            cwd=home,
            env={**os.environ, **quiet},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        found = f"http://127.0.0.1:{port}"
        wait_for(found, server, home / "log")
        yield found
    finally:
        os.killpg(server.pid, 9)
        server.wait()


def wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    pause = threading.Event()
    for _ in range(START_S):
        assert server.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except (OSError, urllib.error.URLError):
            pause.wait(1.0)
    raise AssertionError(log.read_text())


@pytest.fixture
def client(url: str, monkeypatch: pytest.MonkeyPatch) -> "mlflow.MlflowClient":
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    return mlflow.MlflowClient(tracking_uri=url, registry_uri=url)


def job_of(name: str) -> JobSpec:
    version = JobVersion(
        interval="2026-01-01",
        generation="g0001",
        path=f"{name}/versions/2026-01-01/g0001",
        content_digest="1" * 64,
        manifest_sha256="5" * 64,
    )
    fields = {"dataset": name, "interval": "2026-01-01", "folder": ".", "entry": "train:main"}
    return JobSpec.named(**fields, code="0" * 64, seed=7, ranks=2, versions=[version])


def finished(root: Path, job: JobSpec, steps: int) -> JobRecord:
    record = JobRecord(root / job.dataset / "training" / job.interval / job.name)
    record.output.mkdir(parents=True)
    (record.output / "model.npz").write_bytes(b"weights")
    record.write(job)
    lines = [{"step": s, "samples": s, "loss": 1 / s, "rate": "nan"} for s in range(1, steps + 1)]
    log = "".join(json.dumps(line) + "\n" for line in lines)
    (record.home / "metrics.jsonl").write_text(log)
    result = JobResult.of_output(job.name, job.identity, {"auc": 0.75}, record.output)
    result.write(record.home)
    return record


def tracker(url: str, name: str) -> Tracker:
    settings = {"mlflow_default": {"url": url, "timeout_s": 120}}
    return Tracker(tracker_settings(settings, "mlflow_default"), name)


def the_run(client: "mlflow.MlflowClient", experiment: str) -> "mlflow.entities.Run":
    found = client.get_experiment_by_name(experiment)
    (run,) = client.search_runs([found.experiment_id])
    return run


def test_a_job_is_one_run_with_metrics_parameters_and_data(
    url: str, client: "mlflow.MlflowClient", tmp_path: Path
) -> None:
    job = job_of("flights")
    record = finished(tmp_path, job, 1200)
    for status in ("RUNNING", "FINISHED", "FINISHED"):
        assert tracker(url, "flights").job(record, job, status) == DELIVERED
    run = the_run(client, "flights")
    assert run.info.status == "FINISHED"
    assert run.data.tags["trainfeed.job"] == job.name
    assert run.data.params["seed"] == "7"
    assert run.data.params["ranks"] == "2"
    assert run.data.metrics["result/auc"] == 0.75
    (data,) = run.inputs.dataset_inputs
    assert json.loads(data.dataset.source)["manifest_sha256"] == "5" * 64
    history = client.get_metric_history(run.info.run_id, "loss")
    assert [(point.step, point.value) for point in sorted(history, key=lambda p: p.step)] == [
        (step, 1 / step) for step in range(1, 1201)
    ]


def test_a_kill_between_batch_and_note_doubles_no_point(
    url: str, client: "mlflow.MlflowClient", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_of("killed")
    record = finished(tmp_path, job, 700)
    killed = []

    def point(name: str) -> None:
        if name in {"mlflow.after_run", "mlflow.after_batch"} and name not in killed:
            killed.append(name)
            raise OSError("killed here")

    monkeypatch.setattr(faults, "point", point)
    for _ in range(2):
        told = tracker(url, "killed").job(record, job, "FINISHED")
        assert "killed here" in told["mlflow"]
    assert tracker(url, "killed").job(record, job, "FINISHED") == DELIVERED
    assert killed == ["mlflow.after_run", "mlflow.after_batch"]
    run = the_run(client, "killed")
    history = client.get_metric_history(run.info.run_id, "loss")
    assert sorted(point.step for point in history) == list(range(1, 701))


def test_versions_and_aliases_of_a_model_follow_promotions(
    url: str, client: "mlflow.MlflowClient", tmp_path: Path
) -> None:
    folder = ModelsFolder(tmp_path).model("click_model")
    to, jobs = tracker(url, "clicks"), []
    for seed in (1, 2):
        job = job_of("clicks").model_copy(update={"seed": seed})
        job = JobSpec.named(**job.model_dump(exclude={"name"}))
        record = finished(tmp_path, job, 3)
        assert to.job(record, job, "FINISHED") == DELIVERED
        made = ModelJob(**{name: getattr(job, name) for name in ModelJob.model_fields})
        files = {name: (f.size, f.sha256) for name, f in record.result().files.items()}
        register(folder, Candidate(made, [], {"auc": 0.75}, record.output, files))
        jobs.append(job)
    for alias, number in [(CANDIDATE, 1), (PROD, 1), (CANDIDATE, 2), (PROD, 2), (PROD, 1)]:
        promote(folder, alias, number, f"to {number}")
        for _ in range(2):
            assert to.model(folder) == DELIVERED
        found = client.get_model_version_by_alias("click_model", alias)
        assert found.tags["trainfeed.version"] == f"v{number:04d}"
        assert found.tags["trainfeed.identity"] == jobs[number - 1].identity
        assert client.get_run(found.run_id).data.tags["trainfeed.job"] == jobs[number - 1].name
    assert len(client.search_model_versions("name='click_model'")) == 2


def test_a_server_that_refuses_is_told_with_its_reason(url: str, tmp_path: Path) -> None:
    job = job_of("refused")
    record = finished(tmp_path, job, 1)
    told = tracker(url + "/nowhere", "refused").job(record, job, "RUNNING")
    assert told["mlflow"].startswith("not delivered: TrackingError")
    assert "404" in told["mlflow"]
