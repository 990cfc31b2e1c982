"""Planning: the interval, the wait, and the result for the later tasks."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSkipException,
)

from operators.stages import OUTDATED_RULES, PlanIntervalOperator
from trainfeed.core.config import Environment
from trainfeed.errors import (
    ConflictError,
    IngestError,
    SourceUnreachableError,
    TopicNotFoundError,
    TransactionOpenError,
    WindowOpenError,
)
from trainfeed.pipeline import OutdatedRule, SkipReport, plan_report_from_json
from trainfeed.pipeline.preview import DryRunReport, PlannedVersion
from trainfeed.versions import DatasetFolder, init_root
from trainfeed.versions.overrides import overrides_of

DAY = {
    "data_interval_start": datetime(2026, 1, 5, tzinfo=UTC),
    "data_interval_end": datetime(2026, 1, 6, tzinfo=UTC),
}
PLANNED = {
    "dataset": "clicks",
    "interval": "2026-01-05",
    "plan_id": "p1",
    "generation": "g0001",
    "verdict": "build",
    "ingest": [{"unit": 0}],
    "preprocess": [{"unit": 0}, {"unit": 1}],
    "convert": [{"unit": 0}, {"unit": 1}, {"unit": 2}],
    "seconds": 1.5,
}


DRY_RUN = DryRunReport(
    dataset="clicks",
    interval="2026-01-05",
    verdict="identical",
    generation="g0001",
    lands=True,
    reads=[],
    sources=1,
    offsets=0,
    read_bytes=None,
    tasks={"ingest": 1, "preprocess": 1, "convert": 1},
    shards={"train": 1},
    publishes=PlannedVersion("clicks/2026-01-05/g0001", "/pfs/dataset", None, None, None),
    gaps=[],
    space=[],
    seconds=0.5,
)


@pytest.fixture
def stage(monkeypatch, clicks):
    """The stage's calls; ``stage.error`` is raised when it is set."""

    class Stage:
        error = None

        def __init__(self):
            self.calls = []

        def __call__(self, spec, interval, env, *, rebuild, allow_gap, outdated="fail", **more):
            self.calls.append(
                (spec.name, interval.name, env.root, rebuild, allow_gap, outdated, *more)
            )
            if self.error:
                raise self.error
            return plan_report_from_json(PLANNED)

    stage = Stage()
    monkeypatch.setattr("trainfeed.pipeline.plan.plan", stage)
    return stage


def execute(context):
    context["params"].setdefault("outdated", "fail")
    return PlanIntervalOperator(task_id="plan", dataset="clicks").execute(context)


def wait_of(context):
    """How long from now Airflow is asked to wait."""
    before = datetime.now(UTC)
    with pytest.raises(AirflowRescheduleException) as caught:
        execute(context)
    return caught.value.reschedule_date - before


def test_an_interval_that_is_left_out_skips_the_plan_and_the_later_tasks(
    stage, make_context, monkeypatch
):
    report = SkipReport("clicks", "2026-01-05", "the interval is left out: no folder")
    monkeypatch.setattr("trainfeed.pipeline.plan.plan", lambda *_, **__: report)
    context = make_context(**DAY)
    with pytest.raises(AirflowSkipException, match="left out: no folder"):
        execute(context)
    assert context["ti"].xcoms == {"plan": report.to_json()}


def test_the_stage_is_called_once_with_what_the_run_says(stage, make_context):
    execute(make_context(params={"rebuild": "new label", "allow_gap": "outage"}, **DAY))
    assert stage.calls == [("clicks", "2026-01-05", "/pfs/dataset", "new label", "outage", "fail")]


@pytest.mark.parametrize("rule", OUTDATED_RULES)
def test_the_stage_gets_the_rule_of_the_run(stage, make_context, rule):
    execute(make_context(params={"outdated": rule}, **DAY))
    assert stage.calls == [("clicks", "2026-01-05", "/pfs/dataset", None, None, OutdatedRule(rule))]


def test_the_rules_of_the_form_are_those_of_builds():
    assert tuple(OutdatedRule) == OUTDATED_RULES


def test_a_replay_is_asked_of_the_stage_and_never_beside_a_dry_run(stage, dry, make_context):
    execute(make_context(params={"replay": True}, **DAY))
    assert stage.calls == [("clicks", "2026-01-05", "/pfs/dataset", None, None, "fail", "replay")]
    with pytest.raises(AirflowFailException, match="expected replay or dry_run, got both"):
        execute(make_context(params={"replay": True, "dry_run": True}, **DAY))
    assert (len(stage.calls), dry) == (1, [])


def test_there_are_as_many_units_as_the_largest_stage_has(stage, make_context):
    context = make_context(**DAY)
    assert execute(context) == [0, 1, 2]
    assert context["ti"].xcoms == {"plan": PLANNED}


@pytest.fixture
def dry(monkeypatch, clicks):
    """What dry runs are called with."""
    calls = []

    def dry_run(spec, interval, env, *, rebuild, allow_gap, outdated):
        calls.append((spec.name, interval.name, env.root, rebuild, allow_gap, outdated))
        return DRY_RUN

    monkeypatch.setattr("trainfeed.pipeline.preview.dry_run", dry_run)
    return calls


def test_a_dry_run_plans_nothing_and_gives_the_stages_nothing_to_map_over(
    stage, dry, make_context, caplog
):
    context = make_context(params={"dry_run": True, "rebuild": "new label"}, **DAY)
    with caplog.at_level("INFO"):
        assert execute(context) == []
    assert dry == [("clicks", "2026-01-05", "/pfs/dataset", "new label", None, "fail")]
    assert stage.calls == []
    assert context["ti"].xcoms["plan"]["dry_run"] is True
    assert "dry run of clicks/2026-01-05: g0001 is published from the same inputs" in caplog.text


def test_a_dry_run_fails_with_the_error_of_the_plan(stage, make_context, monkeypatch):
    def refuse(*_, **__):
        raise ConflictError("published from another fingerprint")

    monkeypatch.setattr("trainfeed.pipeline.preview.dry_run", refuse)
    with pytest.raises(AirflowFailException, match="another fingerprint"):
        execute(make_context(params={"dry_run": True}, **DAY))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("2026-01-05T01:00:00Z", "is not a tick of the schedule '0 0 * * *'; the nearest are"),
        ("2025-12-31", "lies before the first interval, 2026-01-01"),
        ("2026-02-01", "lies after the last interval, 2026-01-31"),
        ("yesterday", "expected a UTC time like 2013-01-01"),
    ],
)
def test_a_window_that_is_no_interval_fails_at_once(stage, make_context, asked, said):
    with pytest.raises(AirflowFailException, match=re.escape(said)):
        execute(make_context("manual", params={"window_start": asked}))
    assert stage.calls == []


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("dryrun", "did you mean 'dry_run'?"),
        ("ticket", "known here: window_start, dry_run, rebuild, outdated, replay, allow_gap"),
    ],
)
def test_a_parameter_that_nobody_knows_builds_nothing(stage, make_context, name, hint):
    with pytest.raises(AirflowFailException) as caught:
        execute(make_context("manual", params={"window_start": "2026-01-05", name: True}))
    said = f"expected the parameters of the form, got {name!r}; nothing was read or written; {hint}"
    assert str(caught.value) == said
    assert stage.calls == []


def test_only_where_a_training_follows_a_run_may_say_which_are_caught_up(stage, make_context):
    context = make_context("manual", params={"window_start": "2026-01-05", "catch_up": "all"})
    with pytest.raises(AirflowFailException, match="got 'catch_up'"):
        execute(context)
    PlanIntervalOperator(task_id="plan", dataset="clicks", trains=True).execute(context)


@pytest.mark.parametrize("run_type", ["scheduled", "backfill"])
def test_an_open_interval_is_awaited_until_it_is_ready(stage, make_context, run_type):
    stage.error = WindowOpenError("open")
    stage.error.ready_at = datetime.now(UTC) + timedelta(minutes=3)
    wait = wait_of(make_context(run_type, **DAY))
    assert timedelta(minutes=2) < wait <= timedelta(minutes=3)


def test_a_long_wait_is_cut_into_pieces(stage, make_context):
    stage.error = WindowOpenError("open")
    stage.error.ready_at = datetime.now(UTC) + timedelta(days=3)
    assert wait_of(make_context(**DAY)) < timedelta(minutes=11)


@pytest.mark.parametrize("ready_in", [None, timedelta(seconds=-1)])
def test_a_wait_never_is_a_busy_loop(stage, make_context, ready_in):
    stage.error = WindowOpenError("open")
    stage.error.ready_at = None if ready_in is None else datetime.now(UTC) + ready_in
    assert wait_of(make_context(**DAY)) >= timedelta(seconds=5)


@pytest.mark.parametrize("run_type", ["manual", "operator_triggered"])
def test_an_open_interval_fails_a_triggered_run(stage, make_context, run_type):
    stage.error = WindowOpenError("open until noon")
    with pytest.raises(AirflowFailException, match="open until noon"):
        execute(make_context(run_type, params={"window_start": "2026-01-05"}))


@pytest.fixture
def transaction():
    """What planning raises while a transaction is open: settled for 20 minutes, wait 1 hour."""
    error = TransactionOpenError("transaction open: topic 'clicks' partition 3: LSO 5, mark 9")
    error.wait = timedelta(hours=1)
    error.since = datetime.now(UTC) - timedelta(minutes=20)
    return error


@pytest.mark.parametrize("run_type", ["scheduled", "backfill"])
@pytest.mark.parametrize("started_ago", [timedelta(minutes=59), timedelta(days=3)])
def test_an_open_transaction_is_looked_at_again(
    stage, make_context, transaction, run_type, started_ago
):
    """A run that has waited for its interval since days ago waits for the transaction, too."""
    stage.error = transaction
    context = make_context(run_type, started_at=datetime.now(UTC) - started_ago, **DAY)
    assert timedelta(seconds=5) <= wait_of(context) <= timedelta(minutes=11)


@pytest.mark.parametrize("run_type", ["scheduled", "backfill"])
@pytest.mark.parametrize("since", [timedelta(hours=2), timedelta(days=900), None])
def test_an_open_transaction_fails_a_run_that_has_waited_for_it_long_enough(
    stage, make_context, transaction, run_type, since
):
    transaction.since = None if since is None else datetime.now(UTC) - since
    stage.error = transaction
    context = make_context(run_type, started_at=datetime.now(UTC) - timedelta(minutes=61), **DAY)
    with pytest.raises(
        AirflowFailException, match=r"partition 3.*within 1:00:00.*transaction_wait"
    ):
        execute(context)


def test_an_open_transaction_fails_a_triggered_run_at_once(stage, make_context, transaction):
    stage.error = transaction
    with pytest.raises(AirflowFailException, match="partition 3: LSO 5, mark 9"):
        execute(make_context("manual", params={"window_start": "2026-01-05"}))


@pytest.fixture
def awaited():
    """What planning raises while a topic has no record of the interval yet."""
    error = WindowOpenError("waits until 2026-01-08T00:00:00Z: topic 'clicks' has no record")
    error.until = datetime.now(UTC) + timedelta(hours=6)
    return error


def test_a_run_of_the_schedule_looks_again_for_a_first_record(stage, make_context, awaited):
    stage.error = awaited
    assert timedelta(minutes=9) < wait_of(make_context(**DAY)) < timedelta(minutes=11)
    awaited.until = datetime.now(UTC) + timedelta(minutes=4)
    assert timedelta(minutes=3) < wait_of(make_context(**DAY)) < timedelta(minutes=5)


@pytest.mark.parametrize("run_type", ["backfill", "manual"])
def test_other_runs_do_not_wait_for_a_first_record(stage, make_context, awaited, run_type):
    stage.error = awaited
    context = make_context(run_type, **DAY)
    with pytest.raises(AirflowFailException, match="has no record") as caught:
        execute(context)
    assert ("--reprocess-behavior failed" in str(caught.value)) == (run_type == "backfill")


@pytest.mark.parametrize("error", [IngestError("no leader"), SourceUnreachableError("no broker")])
def test_a_source_that_does_not_answer_is_asked_again_for_as_long_as_it_is_waited_for(
    stage, clicks, make_context, error
):
    stage.error = error
    with pytest.raises(type(error)):
        execute(make_context(**DAY))
    text = (clicks / "dataset.yaml").read_text()
    waits = text.replace("topic: clicks,", "topic: clicks, wait: 36500d,")
    (clicks / "dataset.yaml").write_text(waits)
    assert waits != text
    assert timedelta(minutes=9) < wait_of(make_context(**DAY)) < timedelta(minutes=11)
    with pytest.raises(type(error)):
        execute(make_context("backfill", **DAY))
    stage.error = TopicNotFoundError("no topic")
    with pytest.raises(AirflowFailException, match="no topic"):
        execute(make_context(**DAY))


def test_another_error_has_its_own_outcome(stage, make_context):
    stage.error = ConflictError("published from another fingerprint")
    with pytest.raises(AirflowFailException, match="another fingerprint"):
        execute(make_context(**DAY))


def test_a_wrong_specification_fails_with_its_message(clicks, make_context, caplog):
    text = (clicks / "dataset.yaml").read_text()
    (clicks / "dataset.yaml").write_text(text.replace("schema:", "shema:"))
    with pytest.raises(AirflowFailException, match=r"dataset\.yaml:1: schema: .*stands above"):
        execute(make_context(**DAY))
    assert "dataset.yaml:7: shema: unknown field" in caplog.text


def test_a_missing_connection_fails_with_its_name(clicks, make_context, monkeypatch):
    monkeypatch.delenv("AIRFLOW_CONN_CEPHFS_DEFAULT")
    with pytest.raises(AirflowFailException, match="'cephfs_default' is not defined"):
        execute(make_context(**DAY))


@pytest.fixture
def parameters(clicks, tmp_path, monkeypatch):
    """A data set with parameters, and a root in which decisions are written."""
    path = clicks / "dataset.yaml"
    text = path.read_text().replace(
        '"preprocess:clicks"', '"preprocess:clicks", parameters: {late: 15, names: [a]}'
    )
    path.write_text(text)
    init_root(tmp_path / "root")
    monkeypatch.setattr(
        "operators.stages.environment_from_connections",
        lambda *_, **__: Environment(
            root=str(tmp_path / "root"), landing="", work="", kafka={}, datasets=path.parent.parent
        ),
    )
    return DatasetFolder(tmp_path / "root", "clicks")


def execute_with_parameters(context):
    context["params"].setdefault("outdated", "fail")
    operator = PlanIntervalOperator(task_id="plan", dataset="clicks", chooses=True)
    return operator.execute(context)


def by_ann(make_context, params):
    context = make_context(params=params, **DAY)
    context["dag_run"].triggering_user_name = "ann"
    return context


def test_parameters_of_the_form_are_recorded_before_the_plan(stage, make_context, parameters):
    given = {"parameters": "late=20\nnames=[b, c]", "parameters_why": "a slow day"}
    context = by_ann(make_context, given)
    execute_with_parameters(context)
    (chosen,) = overrides_of(parameters, "2026-01-05")
    assert (chosen.parameters, chosen.who) == ({"late": 20, "names": ["b", "c"]}, "ann")
    assert (chosen.why, len(stage.calls)) == ("a slow day", 1)
    execute_with_parameters(context)
    assert len(overrides_of(parameters, "2026-01-05")) == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"parameters": "late=20"}, "expected a reason"),
        ({"parameters": "late=20", "rebuild": "why", "dry_run": True}, "dry_run"),
        ({"parameters": "laet=20", "parameters_why": "why"}, "did you mean 'late'"),
        ({"parameters": "late", "parameters_why": "why"}, "NAME=VALUE"),
    ],
)
def test_parameters_that_are_not_clear_plan_nothing(
    stage, make_context, parameters, given, message
):
    with pytest.raises(AirflowFailException, match=message):
        execute_with_parameters(by_ann(make_context, given))
    assert (stage.calls, overrides_of(parameters, "2026-01-05")) == ([], [])


def test_parameters_need_a_user_and_take_the_reason_of_the_rebuild(stage, make_context, parameters):
    given = {"parameters": "late=20", "rebuild": "a slow day"}
    with pytest.raises(AirflowFailException, match="without a user"):
        execute_with_parameters(make_context(params=given, **DAY))
    execute_with_parameters(by_ann(make_context, given))
    (chosen,) = overrides_of(parameters, "2026-01-05")
    assert (chosen.why, stage.calls[0][3]) == ("a slow day", "a slow day")
