"""Each operator calls its one stage, with the plan and the unit that it was given."""

from __future__ import annotations

import pytest
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from airflow.sdk.execution_time.context import OutletEventAccessors
from airflow.sdk.types import TaskInstanceKey

from operators.links import LINKS, TrainingJobLink, VersionLink
from operators.stages import (
    CheckOperator,
    KafkaToHdfsOperator,
    PreprocessOperator,
    RecordIOToCephFSOperator,
    SamplesToRecordIOOperator,
)
from operators.trainings import TrainingJobOperator
from trainfeed.errors import GateError
from trainfeed.pipeline import PlanRef, PublishReport, VersionSummary

MAPPED = (KafkaToHdfsOperator, PreprocessOperator, SamplesToRecordIOOperator)
PLAN = {
    "dataset": "clicks",
    "interval": "2026-01-05",
    "plan_id": "p1",
    "generation": "g0001",
    "verdict": "build",
    "seconds": 0.5,
    **{stage: [{"unit": 0}, {"unit": 1}] for stage in ("ingest", "preprocess", "convert")},
}
REPORT = PublishReport(
    version="2026-01-05/g0001",
    summary=VersionSummary(
        dataset="clicks",
        interval="2026-01-05",
        generation="g0001",
        fingerprint="33",
        content_digest="22",
        manifest_sha256="11",
        samples=920,
        quarantined=0,
        filtered=0,
        shards=2,
        bytes=4096,
    ),
)
ASSET = Asset(name="clicks", uri="trainfeed://clicks")


@pytest.fixture
def calls(monkeypatch, clicks):
    """What the stages are called with, after specification and environment."""
    made = []

    def stage_named(name):
        def stage(build, *arguments):
            made.append((name, build.spec.name, build.env.root, build.ref, *arguments))
            return REPORT

        return stage

    for name in ("ingest", "preprocess", "convert", "check", "publish"):
        monkeypatch.setattr(f"trainfeed.pipeline.{name}.{name}", stage_named(name))
    return made


def publish(context, **changes):
    operator = RecordIOToCephFSOperator(
        task_id="publish", dataset="clicks", plan={**PLAN, **changes}, outlets=[ASSET]
    )
    context["outlet_events"] = OutletEventAccessors()
    return operator.execute(context), context["outlet_events"][ASSET]


@pytest.mark.parametrize("kind", MAPPED, ids=lambda kind: kind.stage)
def test_a_mapped_stage_works_on_its_unit(calls, make_context, attempts, kind):
    task = kind(task_id=kind.stage, dataset="clicks", plan=PLAN, unit=1)
    assert task.execute(make_context()) == REPORT.to_json()
    ref = PlanRef("clicks", "2026-01-05", "p1")
    assert calls == [(kind.stage, "clicks", "/pfs/dataset", ref, 1)]
    assert attempts == [("p1", f"{kind.stage}-1")]


@pytest.mark.parametrize("kind", MAPPED, ids=lambda kind: kind.stage)
def test_a_unit_that_only_another_stage_has_is_left_alone(calls, make_context, kind):
    task = kind(task_id=kind.stage, dataset="clicks", plan=PLAN, unit=2)
    assert task.execute(make_context())["verdict"] == "idle"
    assert calls == []


def test_check_works_on_the_whole_plan(calls, make_context):
    CheckOperator(task_id="check", dataset="clicks", plan=PLAN).execute(make_context())
    assert calls == [("check", "clicks", "/pfs/dataset", PlanRef("clicks", "2026-01-05", "p1"))]


@pytest.mark.parametrize("verdict", ["build", "identical", "kept"])
def test_publishing_emits_a_keyed_event_even_when_nothing_was_new(
    calls, make_context, attempts, verdict
):
    report, event = publish(make_context(), verdict=verdict)
    assert event.partition_keys == {"2026-01-05"}
    assert event.extra == {
        "generation": "g0001",
        "manifest_sha256": "11",
        "content_digest": "22",
        "fingerprint": "33",
        "samples": 920,
    }
    assert report["verdict"] == {"build": "built"}.get(verdict, verdict)
    assert attempts == {"build": [("p1", "publish")]}.get(verdict, [])


def test_a_failed_stage_leaves_its_message_and_report(clicks, make_context, monkeypatch):
    def fails(*_):
        raise GateError("quarantine_ratio is 0.2", report={"counts": {"read": 5}})

    monkeypatch.setattr("trainfeed.pipeline.check.check", fails)
    context = make_context()
    with pytest.raises(AirflowFailException, match="quarantine_ratio"):
        CheckOperator(task_id="check", dataset="clicks", plan=PLAN).execute(context)
    assert context["ti"].xcoms["failure"]["report"] == {"counts": {"read": 5}}


def test_publishing_leaves_what_the_page_of_the_run_shows(calls, make_context, monkeypatch):
    opened = []
    monkeypatch.setattr("trainfeed.versions.Version.open", lambda path: opened.append(str(path)))
    monkeypatch.setattr(
        "trainfeed.pipeline.version.version_report",
        lambda _, folder: {"of": folder.name},
    )
    context = make_context()
    publish(context)
    assert opened == ["/pfs/dataset/clicks/versions/2026-01-05/g0001"]
    assert context["ti"].xcoms["version_report"] == {"of": "clicks"}


def test_a_version_that_cannot_be_shown_is_published_all_the_same(calls, make_context, caplog):
    context = make_context()
    report, event = publish(context)
    assert report["generation"] == "g0001"
    assert event.partition_keys == {"2026-01-05"}
    assert "version_report" not in context["ti"].xcoms
    assert "the page of the run will not have the version" in caplog.text


def test_publishing_says_where_the_version_is(calls, make_context):
    report, _ = publish(make_context())
    assert report["path"] == "/pfs/dataset/clicks/versions/2026-01-05/g0001"


DRY_RUN = {"dataset": "clicks", "interval": "2026-01-05", "dry_run": True, "verdict": "build"}


@pytest.mark.parametrize("kind", MAPPED, ids=lambda kind: kind.stage)
def test_a_mapped_stage_is_skipped_in_a_dry_run(calls, make_context, kind):
    task = kind(task_id=kind.stage, dataset="clicks", plan=DRY_RUN, unit=0)
    with pytest.raises(AirflowSkipException, match=r"dry run: .* log of the task plan"):
        task.execute(make_context())
    assert calls == []


@pytest.mark.parametrize("kind", [CheckOperator, RecordIOToCephFSOperator])
def test_check_and_publish_are_skipped_in_a_dry_run_without_an_event(calls, make_context, kind):
    context = make_context(outlet_events=OutletEventAccessors())
    task = kind(task_id=kind.stage, dataset="clicks", plan=DRY_RUN, outlets=[ASSET])
    with pytest.raises(AirflowSkipException):
        task.execute(context)
    assert calls == []
    assert not context["outlet_events"][ASSET].partition_keys


@pytest.fixture
def key(monkeypatch):
    """A task of a run at an address of its own."""
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example/base/")
    return TaskInstanceKey("build.clicks", "publish", "manual__2026-01-05T00:00:00+00:00")


def publishing(**options):
    return RecordIOToCephFSOperator(task_id="publish", dataset="clicks", plan=PLAN, **options)


def test_publish_links_to_its_version_and_to_the_training_runs_of_the_interval(key):
    task = publishing(training_dag_id="train.clicks")
    version, runs = task.operator_extra_links
    assert isinstance(version, VersionLink)
    assert version.get_link(task, ti_key=key) == (
        "https://airflow.example/base/dags/build.clicks/runs/"
        "manual__2026-01-05T00%3A00%3A00%2B00%3A00/tasks/publish/xcom"
    )
    assert runs.get_link(task, ti_key=key) == (
        "https://airflow.example/base/dags/train.clicks/runs?partition_key_pattern=2026-01-05"
    )


def test_without_training_there_is_only_the_version():
    assert [type(link) for link in publishing().operator_extra_links] == [VersionLink]


def test_training_links_to_its_job(key):
    task = TrainingJobOperator(task_id="train", dataset="clicks")
    (link,) = task.operator_extra_links
    assert isinstance(link, TrainingJobLink)
    address = link.get_link(task, ti_key=key._replace(dag_id="train.clicks", task_id="train"))
    assert address.startswith("https://airflow.example/base/dags/train.clicks/runs/")
    assert address.endswith("/tasks/train/xcom")


def test_every_link_of_an_operator_is_registered():
    registered = {type(link) for link in LINKS}
    for task in (publishing(training_dag_id="t"), TrainingJobOperator(task_id="t", dataset="c")):
        assert {type(link) for link in task.operator_extra_links} <= registered
