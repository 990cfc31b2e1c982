"""A preprocessing function sees no credentials of the process that runs it."""

from dataclasses import replace

import pytest

from trainfeed.core.config import KafkaSettings, variables
from trainfeed.pipeline import local as _parallel
from trainfeed.pipeline import local as pipeline
from trainfeed.pipeline import preprocess as _function_run

LOOKS = """
import os

import pyarrow as pa

CANARY = "can" + "ary"


def found():
    return sorted(name for name, value in os.environ.items() if CANARY in name + value)


def clicks(record, lookups):
    assert not found(), found()
    assert "PATH" in os.environ
    return {"value": 1.0, "label": 1}


def batch(batch, lookups):
    assert not found(), found()
    row = batch.column("_row")
    ones = pa.array([1] * len(row), pa.int64())
    return pa.RecordBatch.from_pydict({"_row": row, "value": ones.cast("float"), "label": ones})
"""
SECRETS = (
    "AIRFLOW_CONN_KAFKA_DEFAULT",
    "AIRFLOW__CORE__FERNET_KEY",
    "AWS_SECRET_ACCESS_KEY",
    "PGPASSWORD",
)


@pytest.fixture(autouse=True)
def secrets_around(no_worker, monkeypatch):
    monkeypatch.setattr(variables._ObjectStores, "are_used", False)
    for name in SECRETS:
        monkeypatch.setenv(name, "canary")


@pytest.mark.parametrize("mode", ["record", "batch"])
def test_a_function_sees_no_credentials_in_its_environment(project, mode):
    (project.env.datasets / "clicks" / "preprocess.py").write_text(LOOKS)
    if mode == "batch":
        project.edit(
            '{function: "preprocess:clicks", input: record}',
            '{function: "preprocess:batch", input: batch}',
        )
    assert project.build()["samples"] > 0


@pytest.mark.parametrize("place", ["landing", "work", "logs"])
def test_workers_get_keys_of_object_stores_only_if_a_place_is_in_one(project, place, monkeypatch):
    # Another test of this process may have named a bucket.
    for name in ("are_used", "have_root"):
        monkeypatch.setattr(variables._ObjectStores, name, False)
    assert "AWS_SECRET_ACCESS_KEY" not in variables.worker_environ()
    uri = "s3://bucket/x"
    replace(project.env, **{place: {"hdfs_default": uri} if place == "logs" else uri})
    assert variables.worker_environ()["AWS_SECRET_ACCESS_KEY"] == "canary"
    assert "AWS_SECRET_ACCESS_KEY" not in variables.training_environ("package", {})


def test_no_kafka_settings_travel_to_the_processes_of_functions(project, monkeypatch):
    settings = KafkaSettings(
        {"sasl.password": "canary"}, project.env.kafka["kafka_default"].recorded
    )
    env = replace(project.env, kafka={"kafka_default": settings})
    run_jobs, seen = _function_run.run_jobs, []

    def noted(jobs, *rest):
        seen.extend(jobs)
        return run_jobs(jobs, *rest)

    monkeypatch.setattr(_function_run, "run_jobs", noted)
    replace(project, env=env).build()
    assert [dict(job.build.env.kafka) for job in seen] == [{}]


def test_no_kafka_settings_travel_to_processes_that_take_other_tasks(project, monkeypatch):
    settings = KafkaSettings(
        {"sasl.password": "canary"}, project.env.kafka["kafka_default"].recorded
    )
    env = replace(project.env, kafka={"kafka_default": settings})
    project.edit("seed: 7", "seed: 7\nresources: {processes: 2, records_per_task: 50}")
    run_jobs, seen = _parallel.run_jobs, []

    def noted(jobs, *rest):
        seen.extend(jobs)
        return run_jobs(jobs, *rest)

    monkeypatch.setattr(_parallel, "run_jobs", noted)
    replace(project, env=env).build()
    assert {job.label.split()[0] for job in seen} == {"ingest", "convert"}
    assert all(job.build.env.kafka["kafka_default"].client == {} for job in seen)


def test_a_cluster_is_read_by_the_process_that_has_its_settings(project):
    assert pipeline._is_recorded(project.spec, project.env)
    env = replace(project.env, kafka={"kafka_default": KafkaSettings({"bootstrap.servers": "b:1"})})
    assert not pipeline._is_recorded(project.spec, env)


@pytest.mark.parametrize("name", ["HADOOP_USER_NAME", "HADOOP_CONF_DIR", "KRB5CCNAME"])
def test_what_storage_needs_reaches_the_processes(monkeypatch, name):
    from trainfeed.core.config import worker_environ

    monkeypatch.setenv(name, "/x")
    assert worker_environ()[name] == "/x"
