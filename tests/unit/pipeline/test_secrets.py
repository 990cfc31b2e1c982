"""A preprocessing function sees no credentials of the process that runs it."""

import os
import sys
from dataclasses import dataclass, replace

import pytest

from tests.unit.processes import LIMIT_S
from trainfeed.core.config import Environment, KafkaSettings, worker_environ
from trainfeed.files.stores import Location
from trainfeed.pipeline import local as _parallel
from trainfeed.pipeline import local as pipeline
from trainfeed.pipeline import preprocess as _function_run
from trainfeed.pipeline.workers import pool as _engine

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
URI = "s3://bucket/x"
IN_BUCKET = {
    "kafka": {"kafka_default": KafkaSettings(recorded=URI)},
    "landing": URI,
    "logs": {"hdfs_default": URI},
    "work": URI,
}


@pytest.fixture(autouse=True)
def secrets_around(no_worker, monkeypatch):
    for name in SECRETS:
        monkeypatch.setenv(name, "canary")
    # What this process reads itself gives nothing to its workers.
    Location.parse(URI)


@pytest.mark.parametrize("mode", ["record", "batch"])
def test_a_function_sees_no_credentials_in_its_environment(project, mode):
    (project.env.datasets / "clicks" / "preprocess.py").write_text(LOOKS)
    if mode == "batch":
        project.edit(
            '{function: "preprocess:clicks", input: record}',
            '{function: "preprocess:batch", input: batch}',
        )
    assert project.build()["samples"] > 0


@dataclass(frozen=True)
class Names:
    """A job that tells the names of the variables of its worker."""

    label = "names"

    def run(self, _desk):
        return list(os.environ)


@pytest.mark.parametrize("place", IN_BUCKET)
def test_workers_get_keys_of_object_stores_only_if_a_place_is_in_one(project, place):
    far = replace(project.env, **{place: IN_BUCKET[place]})
    of_root = replace(project.env, bucket=URI)
    for env, is_wanted in ((project.env, False), (far, True), (of_root, False)):
        limits = _engine.WorkerLimits(LIMIT_S, sys.maxsize)
        found = _engine.run_jobs([Names()], limits, str, with_keys=env.uses_object_stores)
        assert ("AWS_SECRET_ACCESS_KEY" in found[0]) is is_wanted


@pytest.mark.parametrize("with_keys", [False, True])
def test_every_worker_of_a_build_is_started_as_its_places_say(project, monkeypatch, with_keys):
    project.edit("seed: 7", "seed: 7\nresources: {processes: 2, records_per_task: 50}")
    monkeypatch.setattr(Environment, "uses_object_stores", with_keys)
    new_worker, started = _engine.new_worker, []

    def noted(**how):
        started.append(how["with_keys"])
        return new_worker(**how)

    monkeypatch.setattr(_engine, "new_worker", noted)
    if with_keys:
        (project.env.datasets / "clicks" / "preprocess.py").write_text(LOOKS.replace("not f", "f"))
    project.build()
    assert set(started) == {with_keys}


def test_no_kafka_settings_travel_to_the_processes_of_functions(project, monkeypatch):
    settings = KafkaSettings(
        {"sasl.password": "canary"}, project.env.kafka["kafka_default"].recorded
    )
    env = replace(project.env, kafka={"kafka_default": settings})
    run_jobs, seen = _function_run.run_jobs, []

    def noted(jobs, *rest, **how):
        seen.extend(jobs)
        return run_jobs(jobs, *rest, **how)

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

    def noted(jobs, *rest, **how):
        seen.extend(jobs)
        return run_jobs(jobs, *rest, **how)

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
    monkeypatch.setenv(name, "/x")
    assert worker_environ()[name] == "/x"
