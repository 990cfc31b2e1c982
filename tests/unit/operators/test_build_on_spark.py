"""The task ``spark``: its connection, its application, and the end of both."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import ClassVar

import pytest
from airflow.sdk.exceptions import AirflowFailException

from operators import spark as _shown_progress
from operators.spark import BuildOnSparkOperator, spark_cluster
from tests.unit.operators.stages.test_stages import PLAN
from trainfeed.errors import ConfigError
from trainfeed.pipeline import PlanRef
from trainfeed.pipeline.reports import SparkReport

REPORT = SparkReport(
    records=10, samples=8, quarantined=1, filtered=1, groups=2, shards=4, bytes=100
)


class Application:
    """Stands in for the application; notes what is asked of it."""

    made: ClassVar = []

    def __init__(self, build, cluster, on_progress):
        self.build, self.cluster, self.is_cancelled = build, cluster, False
        self.on_progress = on_progress
        Application.made.append(self)

    def run(self):
        for done in range(4):
            self.on_progress(f"preprocess {done} of 7 tasks")
        return REPORT

    def cancel(self):
        self.is_cancelled = True


@pytest.fixture
def application(monkeypatch):
    from trainfeed.pipeline.spark import application as _spark_application

    monkeypatch.setattr(Application, "made", [])
    monkeypatch.setattr(_spark_application, "SparkApplication", Application)
    return Application


def test_one_task_runs_the_application_of_the_plan(
    application, make_context, attempts, clicks, set_connection
):
    set_connection("spark_default", conn_type="spark", host="local[2]")
    task = BuildOnSparkOperator(task_id="spark", dataset="clicks", plan=PLAN)
    task.on_kill()
    assert task.execute(make_context()) == REPORT.to_json()
    (made,) = application.made
    assert made.build.ref == PlanRef("clicks", "2026-01-05", "p1")
    assert made.cluster.master == "local[2]"
    task.on_kill()
    assert made.is_cancelled


def test_the_page_of_the_run_gets_the_progress_now_and_then(
    application, make_context, attempts, clicks, set_connection, monkeypatch
):
    set_connection("spark_default", conn_type="spark", host="local[2]")
    for pause_s, shown in ((0.0, 3), (60.0, 0)):
        monkeypatch.setattr(_shown_progress, "_PAUSE_S", pause_s)
        context = make_context()
        BuildOnSparkOperator(task_id="spark", dataset="clicks", plan=PLAN).execute(context)
        assert context["ti"].xcoms["progress"] == {"progress": f"preprocess {shown} of 7 tasks"}


def test_a_page_that_cannot_be_told_does_not_end_the_build(caplog):
    def fail(**_):
        raise OSError("no API server")

    _shown_progress.ShownProgress(SimpleNamespace(xcom_push=fail))("preprocess 1 of 7 tasks")
    assert "the progress could not be shown" in caplog.text


def test_the_specification_names_the_connection(
    application, make_context, attempts, clicks, set_connection
):
    path = clicks / "dataset.yaml"
    old = '"preprocess:clicks"'
    named = f"{old}, engine: spark, connection: spark_prod"
    path.write_text(path.read_text().replace(old, named))
    set_connection("spark_default", conn_type="spark", host="local[2]")
    task = BuildOnSparkOperator(task_id="spark", dataset="clicks", plan=PLAN)
    with pytest.raises(AirflowFailException, match=r"connection 'spark_prod'.*is not defined"):
        task.execute(make_context())
    set_connection("spark_prod", conn_type="spark", host="spark://prod", port=7077)
    task.execute(make_context())
    (made,) = application.made
    assert (made.cluster.connection, made.cluster.master) == ("spark_prod", "spark://prod:7077")


@pytest.mark.parametrize(
    ("connection", "settings"),
    [
        ({"host": "spark://master", "port": 7077}, {"master": "spark://master:7077"}),
        (
            {"host": "yarn", "extra": {"deploy-mode": "cluster", "queue": "night"}},
            {"master": "yarn", "deploy_mode": "cluster", "conf": {"spark.yarn.queue": "night"}},
        ),
        (
            {
                "host": "k8s://https://api",
                "port": 6443,
                "extra": {"namespace": "feeds", "conf": {"spark.executor.instances": "3"}},
            },
            {
                "master": "k8s://https://api:6443",
                "conf": {
                    "spark.kubernetes.namespace": "feeds",
                    "spark.executor.instances": "3",
                },
            },
        ),
        (
            {"host": "local[*]", "extra": {"spark-binary": "/o/spark-submit", "python": "/o/py"}},
            {"master": "local[*]", "submit": "/o/spark-submit", "python": "/o/py"},
        ),
    ],
)
def test_the_connection_is_that_of_other_operators_of_spark(set_connection, connection, settings):
    set_connection("spark_default", conn_type="spark", **connection)
    found = spark_cluster("spark_default")
    assert {name: getattr(found, name) for name in settings} == settings


@pytest.mark.parametrize(
    ("connection", "said"),
    [
        ({"host": ""}, "to have a host"),
        ({"host": "local", "extra": {"colour": "canary"}}, r"no other extras.*got \['colour'\]"),
        ({"host": "local", "extra": {"conf": "canary"}}, "conf"),
        ({"host": "canary"}, "master"),
    ],
)
def test_a_wrong_connection_is_refused_without_its_values(set_connection, connection, said):
    set_connection("spark_default", conn_type="spark", **connection)
    with pytest.raises(ConfigError, match=said) as caught:
        spark_cluster("spark_default")
    assert "canary" not in str(caught.value)


def test_a_missing_connection_is_named_with_the_command_that_adds_it():
    with pytest.raises(ConfigError, match="airflow connections add spark_prod") as caught:
        spark_cluster("spark_prod")
    assert json.loads(str(caught.value).split("'")[-2])
