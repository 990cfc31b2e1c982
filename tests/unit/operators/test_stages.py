"""Each operator calls its one stage, with the plan and the unit that it was given."""

from __future__ import annotations

import pytest
from airflow.sdk import Asset
from airflow.sdk.execution_time.context import OutletEventAccessors

from operators.check import CheckOperator
from operators.kafka_to_hdfs import KafkaToHdfsOperator
from operators.preprocess import PreprocessOperator
from operators.recordio_to_cephfs import RecordIOToCephFSOperator, TrainingRunsLink
from operators.samples_to_recordio import SamplesToRecordIOOperator
from trainfeed.build import PlanRef

MAPPED = (KafkaToHdfsOperator, PreprocessOperator, SamplesToRecordIOOperator)
PLAN = {
    "dataset": "clicks",
    "interval": "2026-01-05",
    "plan_id": "p1",
    "verdict": "build",
    **{stage: [{"unit": 0}, {"unit": 1}] for stage in ("ingest", "preprocess", "convert")},
}
REPORT = {
    "stage": "any",
    "verdict": "built",
    "interval": "2026-01-05",
    "generation": "g0001",
    "manifest_sha256": "11",
    "content_digest": "22",
    "fingerprint": "33",
    "samples": 920,
    "shards": 2,
}
ASSET = Asset(name="clicks", uri="trainfeed://clicks")


@pytest.fixture
def calls(monkeypatch, clicks):
    """What the stages are called with, after specification and environment."""
    made = []

    def stage_named(name):
        def stage(spec, env, *arguments):
            made.append((name, spec.name, env.root, *arguments))
            return dict(REPORT)

        return stage

    for name in ("ingest", "preprocess", "convert", "check", "publish"):
        monkeypatch.setattr(f"trainfeed.build.{name}.{name}", stage_named(name))
    return made


def publish(context, **changes):
    operator = RecordIOToCephFSOperator(
        task_id="publish", dataset="clicks", plan={**PLAN, **changes}, outlets=[ASSET]
    )
    context["outlet_events"] = OutletEventAccessors()
    return operator.execute(context), context["outlet_events"][ASSET]


@pytest.mark.parametrize("kind", MAPPED, ids=lambda kind: kind.stage)
def test_a_mapped_stage_works_on_its_unit(calls, make_context, kind):
    task = kind(task_id=kind.stage, dataset="clicks", plan=PLAN, unit=1)
    assert task.execute(make_context()) == REPORT
    ref = PlanRef("clicks", "2026-01-05", "p1")
    assert calls == [(kind.stage, "clicks", "/pfs/dataset", ref, 1)]


@pytest.mark.parametrize("kind", MAPPED, ids=lambda kind: kind.stage)
def test_a_unit_that_only_another_stage_has_is_left_alone(calls, make_context, kind):
    task = kind(task_id=kind.stage, dataset="clicks", plan=PLAN, unit=2)
    assert task.execute(make_context())["verdict"] == "idle"
    assert calls == []


def test_check_works_on_the_whole_plan(calls, make_context):
    CheckOperator(task_id="check", dataset="clicks", plan=PLAN).execute(make_context())
    assert calls == [("check", "clicks", "/pfs/dataset", PlanRef("clicks", "2026-01-05", "p1"))]


@pytest.mark.parametrize("verdict", ["build", "identical"])
def test_publishing_emits_a_keyed_event_even_when_nothing_was_new(calls, make_context, verdict):
    report, event = publish(make_context(), verdict=verdict)
    assert event.partition_keys == {"2026-01-05"}
    assert event.extra == {
        "generation": "g0001",
        "manifest_sha256": "11",
        "content_digest": "22",
        "fingerprint": "33",
        "samples": 920,
    }
    assert report["verdict"] == {"build": "built", "identical": "identical"}[verdict]


def test_the_link_leads_to_the_training_runs_of_the_interval(monkeypatch):
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example/base/")
    task = RecordIOToCephFSOperator(
        task_id="publish", dataset="clicks", plan=PLAN, training_dag_id="train.clicks"
    )
    (link,) = task.operator_extra_links
    assert isinstance(link, TrainingRunsLink)
    assert link.get_link(task, ti_key=None) == (
        "https://airflow.example/base/dags/train.clicks/runs?partition_key_pattern=2026-01-05"
    )


def test_without_training_there_is_no_link():
    task = RecordIOToCephFSOperator(task_id="publish", dataset="clicks", plan=PLAN)
    assert list(task.operator_extra_links) == []
