"""The DAG files: the DAGs that they make of the specifications, and the cost of parsing."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import count, islice, pairwise
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import Asset
from airflow.sdk.exceptions import ParamValidationError
from airflow.serialization.serialized_objects import DagSerialization
from croniter import croniter

import dags
import operators
from dags._shares import NUM_SHARES, share_of
from operators import stages as plan_interval
from operators.connections import datasets_folder
from operators.timetable import BEFORE_ALL
from tests.dags.conftest import TRAIN
from trainfeed.cli.scaffold import new_dataset
from trainfeed.specification import DatasetSpec, load_spec, load_specs

# Airflow's own reading of .airflowignore.
pytestmark = pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")

ROOT = Path(__file__).resolve().parents[2]
DAGS_OF_NO_DATA_SET = {
    "convert",
    "housekeeping",
    "models",
    "outdated",
    "repair",
    "retention",
    "retire",
    "tag",
    "withdraw",
}
OF_CLICKS = {"build.clicks", "train.clicks", "waive.clicks"}
STAGES = ["plan", "ingest", "preprocess", "convert", "check", "publish"]
HEAVY = [
    "confluent_kafka",
    "hdfs",
    "hdfs_native",
    "kubernetes",
    "numpy",
    "pandas",
    "pyarrow",
    "requests",
]


def round_trip(dag):
    return DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))


def ticks(dag):
    """The data intervals that the scheduler would make runs for, were it the year 2027."""
    dag = round_trip(dag)
    # Without an end of its own, Airflow makes tasks whatever the logical date of a run is.
    assert dag.end_date is None
    assert dag.start_date == BEFORE_ALL
    assert {(task.start_date, task.end_date) for task in dag.tasks} == {(BEFORE_ALL, None)}
    restriction = dag._time_restriction._replace(latest=datetime(2027, 1, 1, tzinfo=UTC))
    info, found = None, []
    while info := dag.timetable.next_dagrun_info_v2(last_dagrun_info=info, restriction=restriction):
        found.append((info.data_interval.start, info.data_interval.end))
    return found


def test_the_repository_makes_a_dag_for_each_of_its_own_data_sets(load, monkeypatch):
    monkeypatch.delenv("TRAINFEED_DATASETS", raising=False)
    specs = load_specs(datasets_folder())
    assert specs
    assert all(isinstance(spec, DatasetSpec) for spec in specs)
    bag = load()
    assert bag.import_errors == {}
    assert (
        set(bag.dags)
        == {f"build.{spec.name}" for spec in specs}
        | {f"train.{spec.name}" for spec in specs if spec.train}
        | {f"waive.{spec.name}" for spec in specs}
        | DAGS_OF_NO_DATA_SET
    )


@pytest.mark.parametrize("bundle", ["", "dags"], ids=["repository", "dags"])
def test_every_file_defines_its_dags(add, load, bundle):
    add("views", extra="")
    add("clicks")
    bag = load(bundle)
    assert bag.import_errors == {}
    files = {Path(s.file).name: sorted(eval(s.dags)) for s in bag.dagbag_stats}
    # The shares of the names are 1 and 7.
    shares = {
        1: ["build.clicks", "train.clicks", "waive.clicks"],
        7: ["build.views", "waive.views"],
    }
    assert files == {
        "convert.py": ["convert"],
        "housekeeping.py": ["housekeeping"],
        "outdated.py": ["outdated"],
        "withdraw.py": ["withdraw"],
        "models.py": ["models"],
        "repair.py": ["repair"],
        "retention.py": ["retention"],
        "retire.py": ["retire"],
        "tag.py": ["tag"],
        **{f"datasets_{share}.py": shares.get(share, []) for share in range(NUM_SHARES)},
        **{f"spec_errors_{share}.py": [] for share in range(NUM_SHARES)},
    }


def test_every_dag_survives_serialization(add, load):
    add("clicks")
    for dag in load().dags.values():
        assert round_trip(dag).task_ids == dag.task_ids


def test_a_build_is_one_chain_of_stages(add, load):
    add("clicks")
    dag = load("dags").dags["build.clicks"]
    assert dag.task_ids == STAGES
    for stage, following in pairwise(STAGES):
        assert following in dag.get_task(stage).downstream_task_ids
    assert [task.is_mapped for task in dag.tasks] == [False, True, True, True, False, False]


def test_the_engine_spark_has_one_task_in_the_place_of_two(add, load):
    add("clicks", **{'"preprocess:clicks"': '"preprocess:clicks", engine: spark'})
    dag = load("dags").dags["build.clicks"]
    stages = ["plan", "ingest", "spark", "check", "publish"]
    assert dag.task_ids == stages
    for stage, following in pairwise(stages):
        assert following in dag.get_task(stage).downstream_task_ids
    assert [task.is_mapped for task in dag.tasks] == [False, True, False, False, False]


def test_a_gate_that_asks_adds_one_task_which_holds_up_no_other_interval(add, load):
    ask = "quality: [{check: count, min: 1, severity: ask}]\n"
    add("clicks", extra=ask, **{"end: 2026-01-03\n": ""})
    dag = load("dags").dags["build.clicks"]
    assert dag.task_ids == [*STAGES[:-1], "ask", "publish"]
    task, publish = dag.get_task("ask"), dag.get_task("publish")
    assert (task.upstream_task_ids, task.downstream_task_ids) == ({"plan", "check"}, {"publish"})
    assert (task.response_timeout, task.execution_timeout) == (timedelta(days=7), None)
    assert publish.trigger_rule == "none_failed_min_one_success"
    assert dag.max_active_runs == 3 + 7 + 1
    assert dag.get_task("plan").max_active_tis_per_dag == 3
    assert task.max_active_tis_per_dag is None


def test_the_form_of_a_waiver_is_about_one_data_set_and_builds_the_interval(add, load):
    add("clicks")
    dag = load("dags").dags["waive.clicks"]
    assert dag.task_ids == ["waive", "build"]
    assert "dataset" not in dag.params
    assert dag.get_task("waive").dataset == "clicks"
    assert dag.get_task("build").trigger_dag_id == "build.clicks"


def test_the_ticks_are_those_of_the_specification(add, load):
    spec = load_spec(add("clicks"))
    dag = load("dags").dags["build.clicks"]
    assert (dag.catchup, dag.max_active_runs) == (True, 3)
    expected = [(each.start, each.end) for each in spec.schedule_model().intervals()]
    assert ticks(dag) == expected
    assert len(expected) == 3


def test_a_set_that_goes_on_has_no_last_tick(add, load):
    add("clicks", **{"end: 2026-01-03\n": ""})
    found = ticks(load("dags").dags["build.clicks"])
    assert len(found) == 366


def test_odd_schedules_have_the_same_ticks_in_both(add, load):
    odd = {
        '"@daily"': '"20 */7 * * 1-5"',
        "start: 2026-01-01": "start: 2026-01-01T00:20:00Z",
        "end: 2026-01-03": "end: 2026-01-08T14:20:00Z",
    }
    spec = load_spec(add("clicks", **odd))
    expected = [(each.start, each.end) for each in spec.schedule_model().intervals()]
    assert ticks(load("dags").dags["build.clicks"]) == expected
    assert len(expected) > 10


def test_publishing_feeds_the_asset_that_training_listens_to(add, load):
    add("clicks")
    bag = load()
    asset = Asset(name="clicks", uri="trainfeed://clicks")
    assert bag.dags["build.clicks"].get_task("publish").outlets == [asset]
    timetable = bag.dags["train.clicks"].timetable
    assert type(timetable).__name__ == "PartitionedAssetTimetable"
    assert timetable.asset_condition == asset


def test_retries_and_limits_are_set_on_purpose(add, load):
    add("clicks")
    for dag in load().dags.values():
        for task in dag.tasks:
            assert task.retries == 2
            assert timedelta(seconds=1) <= task.retry_delay <= timedelta(seconds=30)
            assert task.execution_timeout is not None


def test_only_tasks_that_read_the_source_use_its_pool(add, load):
    add("clicks")
    add("views", **{"pool: kafka_reads, ": ""})
    bag = load("dags")
    pools = {task.task_id: task.pool for task in bag.dags["build.clicks"].tasks}
    assert [stage for stage in STAGES if pools[stage] == "kafka_reads"] == ["plan", "ingest"]
    assert {task.pool for task in bag.dags["build.views"].tasks} == {"default_pool"}


@pytest.mark.parametrize(
    ("land", "readers"),
    [("false", ["plan", "ingest", "preprocess"]), ("true", ["plan", "ingest"])],
)
def test_samples_are_made_in_the_pool_of_the_source_when_they_come_from_its_files(
    add, load, land, readers
):
    logs = f'{{logs: {{path: "/logs/{{start:%Y-%m-%d}}", land: {land}}}}}'
    add("clicks", **{"{kafka: {topic: clicks}}": logs})
    tasks = load("dags").dags["build.clicks"].tasks
    assert [task.task_id for task in tasks if task.pool == "kafka_reads"] == readers


def of_logs(rule):
    """What makes the source of the tests' data set one of log files."""
    return {"{kafka: {topic: clicks}}": f'{{logs: {{path: "/logs/{{start:%Y-%m-%d-%H}}"{rule}}}}}'}


@pytest.mark.parametrize(
    ("rule", "schedule", "waiting"),
    [
        ("", '"@daily"', 3),
        (", settle: 12h", '"@daily"', 4),
        (", wait: 0s", '"@daily"', 1),
        ("", '"@hourly"', 49),
        (", wait: 36500d", '"@daily"', 500),
        (", wait: 7d", '"0 0 * * 1"', 2),
    ],
)
def test_for_every_interval_that_may_wait_for_its_logs_one_more_run_may_be_active(
    add, load, rule, schedule, waiting
):
    replaced = {'"@daily"': schedule, "start: 2026-01-01": "start: 2026-01-05"}
    add("clicks", **replaced, **of_logs(rule), **{"end: 2026-01-03\n": ""})
    dag = load("dags").dags["build.clicks"]
    assert dag.max_active_runs == 3 + waiting


@pytest.mark.parametrize(
    ("rule", "waiting"),
    [("", 0), (", settle: 0s, wait: 2d", 3), (", settle: 0s, missing: skip", 1)],
)
def test_for_every_interval_that_may_wait_for_its_topic_one_more_run_may_be_active(
    add, load, rule, waiting
):
    add("clicks", **{"{kafka: {topic: clicks}}": f"{{kafka: {{topic: clicks{rule}}}}}"})
    dag = load("dags").dags["build.clicks"]
    assert dag.max_active_runs == 3 + waiting
    assert dag.get_task("plan").max_active_tis_per_dag == (3 if waiting else None)
    assert not dag.has_task("wait_for_logs")


def of_both(until):
    """The topic from a day on, and folders before; keyword arguments of ``add``."""
    logs = f"{{logs: {{path: '/logs/{{start:%Y-%m-%d}}', wait: 2d}}, until: {until}}}"
    return {"source: {kafka: {topic: clicks}}": f"sources: [{logs}, {{kafka: {{topic: clicks}}}}]"}


def test_a_set_of_an_archive_and_a_topic_can_wait_for_both(add, load):
    add("clicks", **of_both("2026-01-02"))
    dag = load("dags").dags["build.clicks"]
    assert dag.max_active_runs == 3 + 3
    assert dag.get_task("wait_for_logs").downstream_task_ids == {"plan"}
    # Tasks cannot tell which interval they will have: one that may read the topic has its pool.
    assert dag.get_task("preprocess").pool == "kafka_reads"
    assert "until 2026-01-02 00:00 UTC" in dag.doc_md


def test_of_log_files_tasks_that_work_are_bounded_in_place_of_runs(add, load):
    add("clicks", **of_logs(""))
    add("views")
    bag = load("dags")
    tasks = {task.task_id: task for task in bag.dags["build.clicks"].tasks}
    assert {name: task.max_active_tis_per_dag for name, task in tasks.items()} == {
        "wait_for_logs": None,
        **dict.fromkeys(("plan", "check", "publish"), 3),
        **dict.fromkeys(("ingest", "preprocess", "convert"), 3 * 16),
    }
    # The last task first, so that an interval is finished before another one is begun.
    weights = [tasks[stage].weight_rule for stage in STAGES]
    assert len(set(map(str, weights))) == 1
    assert {task.max_active_tis_per_dag for task in bag.dags["build.views"].tasks} == {None}


def form(add, load, **replaced):
    add("clicks", **replaced)
    return load("dags").dags["build.clicks"].params


def test_a_function_with_parameters_has_fields_for_other_values(add, load):
    given = {'"preprocess:clicks"': '"preprocess:clicks", parameters: {late: 15, names: [a]}'}
    params = form(add, load, **given)
    assert params.keys() >= {"parameters", "parameters_why"}
    assert (params["parameters"], params["parameters_why"]) == (None, None)
    text = params.get_param("parameters").description
    assert "late=15; names=['a']" in text


HOURLY = {'"@daily"': '"@hourly"', "end: 2026-01-03\n": ""}


def test_the_trigger_form_explains_every_parameter(add, load):
    params = form(add, load)
    assert list(params) == [
        "window_start",
        "dry_run",
        "rebuild",
        "outdated",
        "replay",
        "allow_gap",
        "training",
        "catch_up",
    ]
    # Others are refused by the task.
    assert tuple(params) == plan_interval._PARAMETERS + plan_interval._OF_TRAININGS
    assert params.dump() == dict.fromkeys(params) | {
        "dry_run": False,
        "outdated": "fail",
        "replay": False,
        "training": "each",
        "catch_up": "missed",
    }
    for name in params:
        param = params.get_param(name)
        assert param.schema["title"]
        assert param.description.endswith(".")
        assert "`" not in param.description, "the form shows it as it stands"


def test_without_a_training_there_is_none_to_catch_up(add, load):
    add("clicks", extra="")
    dag = load("dags").dags["build.clicks"]
    assert tuple(dag.params) == plan_interval._PARAMETERS
    assert not dag.get_task("plan").trains


def test_where_a_training_follows_the_first_task_knows_its_parameter(add, load):
    add("clicks")
    assert load("dags").dags["build.clicks"].get_task("plan").trains


def test_the_window_of_a_daily_set_with_an_end_is_one_of_its_ticks(add, load):
    param = form(add, load).get_param("window_start")
    assert param.schema["type"] == ["null", "string"]
    assert param.schema["enum"] == [None, "2026-01-01", "2026-01-02", "2026-01-03"]
    assert param.schema["values_display"] == {"null": "none: the date decides"}
    assert "a tick of the schedule @daily, from 2026-01-01 to 2026-01-03," in param.description


def test_a_weekly_set_lists_its_own_days_only(add, load):
    weekly = {'"@daily"': '"30 6 * * 1"', "start: 2026-01-01": "start: 2026-01-05T06:30:00Z"}
    weekly["end: 2026-01-03"] = "end: 2026-01-19T06:30:00Z"
    param = form(add, load, **weekly).get_param("window_start")
    assert param.schema["enum"] == [None, "2026-01-05", "2026-01-12", "2026-01-19"]


@pytest.mark.parametrize("end", ["", "end: 2026-04-11\n"], ids=["endless", "101 days"])
def test_the_window_of_a_long_daily_set_is_a_date_with_examples(add, load, end):
    param = form(add, load, **{"end: 2026-01-03\n": end}).get_param("window_start")
    assert param.schema["format"] == "date"
    assert "enum" not in param.schema
    assert param.schema["examples"] == ["2026-01-01", "2026-01-02", "2026-01-03"]


def test_the_window_of_an_hourly_set_is_a_date_and_time(add, load):
    param = form(add, load, **HOURLY).get_param("window_start")
    assert param.schema["format"] == "date-time"
    assert param.schema["examples"][1] == "2026-01-01T01:00:00Z"
    assert "from 2026-01-01T00, such as" in param.description


BERLIN = {'"@daily"': '"@daily"\ntz: Europe/Berlin'}
DAYS = ["2025-12-31T23", "2026-01-01T23", "2026-01-02T23"]


def test_the_window_of_a_set_in_a_zone_lists_names_with_their_days_there(add, load):
    param = form(add, load, **BERLIN).get_param("window_start")
    assert param.schema["enum"] == [None, *DAYS]
    assert param.schema["values_display"][DAYS[0]] == "2025-12-31T23 (2026-01-01 Europe/Berlin)"
    assert "of Europe/Berlin" in param.description


@pytest.mark.parametrize(
    "value", ["2026-01-02", "2026-01-01T23", "2026-01-01T23:00:00Z", "2026-01-02T00:00:00+01:00"]
)
def test_the_window_of_an_endless_set_in_a_zone_is_a_day_or_a_name(add, load, value):
    param = form(add, load, **BERLIN, **{"end: 2026-01-03\n": ""}).get_param("window_start")
    assert param.resolve(value) == value


@pytest.mark.parametrize("value", ["2026-01", "2026-01-02T00:00:00", "2026-01-02T00:00"])
def test_a_time_that_may_be_meant_in_utc_or_there_is_refused(add, load, value):
    param = form(add, load, **BERLIN, **{"end: 2026-01-03\n": ""}).get_param("window_start")
    with pytest.raises(ParamValidationError):
        param.resolve(value)


def test_the_page_of_a_set_in_a_zone_has_both_times(add, load):
    add("clicks", **BERLIN)
    page = load("dags").dags["build.clicks"].doc_md
    assert "`@daily` Europe/Berlin, from 2025-12-31T23 to 2026-01-02T23" in page
    assert "`window_start` = `2025-12-31T23`, which is 2026-01-01 Europe/Berlin" in page
    assert "--from-date 2025-12-31T23:00:00Z --to-date 2026-01-02T23:00:00Z" in page


ODD = {'"@daily"': '"*/20 */7 * * 1-5"', "end: 2026-01-03\n": ""}


@pytest.mark.parametrize(
    ("schedule", "value"),
    [
        (HOURLY, "2026-01-02T05:00:00Z"),
        (HOURLY, "2026-01-02T05:00:00+00:00"),
        # What the form makes of date and time.
        (HOURLY, "2026-01-02T23:00:00.000Z"),
        (ODD, "2026-01-02T14:40:00Z"),
    ],
)
def test_times_of_ticks_are_taken(add, load, schedule, value):
    param = form(add, load, **schedule).get_param("window_start")
    assert param.resolve(value) == value


@pytest.mark.parametrize(
    ("schedule", "value"),
    [
        (HOURLY, "2026-01-02T05:30:00Z"),
        (HOURLY, "2026-01-02T05:00:01Z"),
        (HOURLY, "2026-01-02T05:00:00.500Z"),
        (HOURLY, "2026-01-02T05:00:00+05:30"),
        (ODD, "2026-01-02T14:30:00Z"),
        (ODD, "2026-01-02T15:40:00Z"),
    ],
)
def test_times_without_a_tick_are_refused(add, load, schedule, value):
    param = form(add, load, **schedule).get_param("window_start")
    with pytest.raises(ParamValidationError):
        param.resolve(value)


@pytest.mark.parametrize("cron", ["@hourly", "*/20 */7 * * 1-5", "59 0,23 1 * *", "* * * * *"])
def test_every_tick_of_a_schedule_gets_through_its_form(add, load, cron):
    first = croniter(cron, datetime(2025, 12, 31, 23, 59, tzinfo=UTC)).get_next(datetime)
    spec = load_spec(
        add(
            "clicks",
            **{
                '"@daily"': f'"{cron}"',
                "start: 2026-01-01": f"start: {first:%Y-%m-%dT%H:%M:%SZ}",
                "end: 2026-01-03\n": "",
            },
        )
    )
    param = load("dags").dags["build.clicks"].params.get_param("window_start")
    for interval in islice(spec.schedule_model().intervals(), 300):
        param.resolve(f"{interval.start:%Y-%m-%dT%H:%M:%SZ}")


def test_every_example_is_taken(add, load):
    spec = load_spec(add("clicks", **HOURLY))
    param = load("dags").dags["build.clicks"].params.get_param("window_start")
    intervals = [
        spec.schedule_model().interval_at(param.resolve(e)) for e in param.schema["examples"]
    ]
    assert [interval.name for interval in intervals] == [
        "2026-01-01T00",
        "2026-01-01T01",
        "2026-01-01T02",
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("window_start", "yesterday"),
        ("window_start", "2026-13-01"),
        ("window_start", "2026-01-04"),
        ("window_start", "2025-12-31"),
        ("window_start", "2026-01-01T00:00:00Z"),
        ("window_start", 20260101),
        ("dry_run", "yes"),
        ("dry_run", None),
        ("rebuild", ""),
        ("rebuild", "    "),
        ("rebuild", "x" * 501),
        ("outdated", "force"),
        ("outdated", None),
        ("allow_gap", True),
    ],
)
def test_the_form_refuses_what_is_no_value_of_a_parameter(add, load, name, value):
    param = form(add, load).get_param(name)
    with pytest.raises(ParamValidationError):
        param.resolve(value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("window_start", None),
        ("window_start", "2026-01-02"),
        ("rebuild", None),
        ("rebuild", "new label"),
        ("dry_run", True),
        ("outdated", "keep"),
        ("outdated", "rebuild"),
    ],
)
def test_the_form_takes_right_values(add, load, name, value):
    assert form(add, load).get_param(name).resolve(value) == value


def test_training_asks_for_the_window_or_a_tag(add, load):
    add("clicks")
    assert list(load("dags").dags["train.clicks"].params) == ["window_start", "tag"]


def test_a_pool_that_nobody_has_made_is_a_warning_of_airflow(add, monkeypatch):
    # Tasks of a pool that is not there are never started; Airflow shows this beside the DAG.
    add("clicks")
    bag = DagBag(ROOT / "dags", load_op_links=False, known_pools={"default_pool"})
    (warning,) = bag.dag_warnings
    assert warning.message == "Dag 'build.clicks' references non-existent pools: ['kafka_reads']"
    known = {"default_pool", "kafka_reads"}
    bag = DagBag(ROOT / "dags", load_op_links=False, known_pools=known)
    assert not bag.dag_warnings


GATES = """\
split: {train: 0.75, eval: 0.25, by: [label]}
quality:
  - {check: count, min: 50}
  - {check: range, field: label, min: 0, max: 1, severity: warn}
"""


def test_the_documentation_page_shows_the_specification(add, load):
    text = (add("clicks") / "dataset.yaml").read_text()
    for dag in (dag for name, dag in load().dags.items() if name not in DAGS_OF_NO_DATA_SET):
        assert dag.doc_md.startswith("Will the user click?")
        assert f"yaml\n{text}````" in dag.doc_md


def test_the_documentation_page_says_what_the_data_set_is(add, load):
    add("clicks", extra=TRAIN + GATES)
    page = load("dags").dags["build.clicks"].doc_md
    for line in (
        "- **Source:** Kafka topic `clicks` (connection `kafka_default`)",
        "- **Intervals:** `@daily` UTC, from 2026-01-01 to 2026-01-03; names like `2026-01-01`",
        "- **Function:** `preprocess:clicks`, per record",
        "- **Splits:** eval 25 %, train 75 %, equal label in one split",
        "- **Training:** `train:main` on the last 3 intervals",
        "- **Pool:** `kafka_reads`, of the tasks that read the source",
        "| `label` | int64 |  |  |",
        "| `count` | min 50 | not published |",
        "| `range of label` | min 0, max 1 | a warning |",
    ):
        assert line in page.splitlines()


def test_the_documentation_page_shows_how_to_trigger_and_backfill(add, load):
    add("clicks", extra="")
    page = load("dags").dags["build.clicks"].doc_md
    assert "`window_start` = `2026-01-01`" in page
    assert (
        "airflow backfill create --dag-id build.clicks --from-date 2026-01-01 --to-date 2026-01-03"
    ) in page
    assert "**Quality gates:** none" in page


def test_a_new_data_set_has_its_dags(datasets, load):
    new_dataset(datasets, "clicks")
    bag = load()
    assert bag.import_errors == {}
    assert set(bag.dags) - DAGS_OF_NO_DATA_SET == OF_CLICKS
    assert "recorded topic `./sample`" in bag.dags["build.clicks"].doc_md


def test_a_wrong_specification_is_one_import_error_and_the_others_load(add, load):
    add("clicks")
    folder = add("views", **{"schema:": "shema:"})
    bag = load()
    assert set(bag.dags) - DAGS_OF_NO_DATA_SET == OF_CLICKS
    ((file, error),) = bag.import_errors.items()
    assert Path(file).name == f"spec_errors_{share_of('views')}.py"
    assert f"{folder / 'dataset.yaml'}:9: shema: unknown field; did you mean 'schema'?" in error


def test_two_wrong_specifications_are_both_named(add, load):
    same = next(n for n in map("clicks{}".format, count()) if share_of(n) == share_of("clicks"))
    for name in (same, "views", "clicks"):
        add(name, **{"schema:": "shema:"})
    errors = {Path(file).name: error for file, error in load().import_errors.items()}
    assert errors.keys() == {f"spec_errors_{share_of(name)}.py" for name in ("clicks", "views")}
    assert "views/dataset.yaml" in errors[f"spec_errors_{share_of('views')}.py"]
    both = errors[f"spec_errors_{share_of('clicks')}.py"]
    assert both.index("clicks/dataset.yaml") < both.index(f"{same}/dataset.yaml")


def test_of_two_specifications_with_one_name_the_copy_is_named(add, load):
    original = add("clicks")
    shutil.copytree(original, original.with_name("clicks_copy"))
    bag = load()
    assert set(bag.dags) - DAGS_OF_NO_DATA_SET == OF_CLICKS
    ((_, error),) = bag.import_errors.items()
    said = "name: expected the name of its folder, 'clicks_copy', got 'clicks'; rename one"
    assert f"clicks_copy/dataset.yaml:1: {said}" in error


def test_a_missing_folder_of_data_sets_names_the_variable(load, datasets):
    datasets.rmdir()
    assert all("TRAINFEED_DATASETS" in error for error in load().import_errors.values())


@pytest.mark.parametrize("wanted", ["build.clicks", "train.clicks", "waive.clicks"])
def test_a_task_that_starts_parses_its_own_dag_only(add, load, monkeypatch, wanted):
    add("clicks")
    add("views", **{"schema:": "shema:"})
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", wanted)
    assert set(load(f"dags/datasets_{share_of('clicks')}.py").dags) == {wanted}
    assert set(load(f"dags/datasets_{share_of('views')}.py").dags) == set()


def test_parsing_twice_gives_the_same_dags(add, load):
    for name in ("views", "clicks", "buys"):
        add(name)
    first, second = (
        {name: DagSerialization.serialize_dag(dag) for name, dag in load().dags.items()}
        for _ in range(2)
    )
    assert first == second


def test_the_packages_are_ours():
    # Airflow appends bundles to sys.path: an installed package of the same name would win.
    assert Path(operators.__file__).parent == ROOT / "operators"
    assert Path(dags.__file__).parent == ROOT / "dags"


def in_fresh_process(code):
    command = [sys.executable, "-W", "ignore", "-c", code]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "include")])
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip().splitlines()[-1]


def test_no_dag_file_imports_anything_heavy(add):
    """One after another in one process: the first list that is not empty is that of the culprit."""
    add("clicks")
    files = ["datasets_1.py", "convert.py", "housekeeping.py", "spec_errors_1.py"]
    code = f"""
import runpy, sys
found = {{}}
for file in {files!r}:
    runpy.run_path(f"{ROOT / "dags"}/{{file}}")
    found[file] = [name for name in {HEAVY!r} if name in sys.modules]
print(found)
"""
    assert in_fresh_process(code) == str({file: [] for file in files})


def test_errors_of_specifications_show_where_an_operator_cannot_be_imported(add, datasets):
    add("clicks")
    (datasets / "clicks" / "dataset.yaml").write_text("{")
    code = f"""
import runpy, sys
sys.modules["operators.stages"] = None
try:
    runpy.run_path({str(ROOT / "dags" / f"spec_errors_{share_of('clicks')}.py")!r})
except Exception as error:
    print(type(error).__name__)
"""
    assert in_fresh_process(code) == "SpecError"


def in_an_airflow_with_the_plugins(code):
    return in_fresh_process(f"""
import os, sys
os.environ["AIRFLOW__CORE__PLUGINS_FOLDER"] = {str(ROOT / "plugins")!r}
os.environ["AIRFLOW__API__BASE_URL"] = "http://host/below"
from airflow import plugins_manager
{code}
assert not plugins_manager.get_import_errors()
""")


def test_the_plugin_registers_the_links_of_the_operators():
    code = "print(sorted(type(l).__name__ for l in plugins_manager.get_operator_extra_links()))"
    links = ["ModelLink", "TrainingJobLink", "TrainingRunsLink", "VersionLink"]
    assert in_an_airflow_with_the_plugins(code) == str(links)


def test_the_plugin_registers_the_timetable_and_the_listener():
    code = """
listeners = plugins_manager._get_plugins()[0]
print(sorted(plugins_manager.get_timetables_plugins()),
      [m.__name__ for p in listeners for m in p.listeners if p.name == "trainfeed_links"])
"""
    expected = "['operators.timetable.IntervalTimetable'] ['plugins._run_notes']"
    assert in_an_airflow_with_the_plugins(code) == expected


def test_the_plugin_registers_a_page_of_runs_and_imports_it_later():
    code = """
(app,), _ = plugins_manager.get_fastapi_plugins()
(view,), _ = plugins_manager._get_ui_plugins()
print(app["url_prefix"], view["href"], view["destination"])
assert not [name for name in sys.modules if name.endswith("_run_page")]
"""
    href = "/below/trainfeed/dags/{DAG_ID}/runs/{RUN_ID}"
    assert in_an_airflow_with_the_plugins(code) == f"/trainfeed {href} dag_run"


def test_of_five_hundred_specifications_no_file_takes_long(add, load, capsys):
    for number in range(500):
        add(f"clicks{number:03d}")
    load("dags/convert.py")
    share = Counter(share_of(f"clicks{number:03d}") for number in range(500)).most_common(1)
    ((largest, size),) = share
    seconds = {}
    for kind in ("datasets", "spec_errors"):
        # Of this process alone: others may have the processors meanwhile.
        started = time.process_time()
        bag = load(f"dags/{kind}_{largest}.py")
        seconds[kind] = time.process_time() - started
        assert len(bag.dags) == (3 * size if kind == "datasets" else 0)
    with capsys.disabled():
        sys.stdout.write(f" {size} of 500 specifications in {seconds} s ")
    # The DAG processor gives 30 s to one file, of a machine that may be ten times as busy.
    assert max(seconds.values()) < 3


def test_a_share_reads_no_specification_of_another(add, load, monkeypatch):
    for name in ("clicks", "views"):
        add(name)

    def hang(folder):
        raise AssertionError(f"{folder.name} is read") from None

    real = dags._shares.spec_or_error
    for module in (dags._datasets, dags._shares):
        monkeypatch.setattr(
            module, "spec_or_error", lambda f: hang(f) if f.name == "views" else real(f)
        )
    for kind in ("datasets", "spec_errors"):
        assert not load(f"dags/{kind}_{share_of('clicks')}.py").import_errors
        assert load(f"dags/{kind}_{share_of('views')}.py").import_errors


def test_a_specification_that_goes_while_its_file_is_read_ends_no_other(add, load, monkeypatch):
    add("clicks")
    real = dags._datasets.spec_or_error

    def gone_since(folder):
        spec = real(folder)
        (folder / "dataset.yaml").unlink()
        return spec

    monkeypatch.setattr(dags._datasets, "spec_or_error", gone_since)
    bag = load(f"dags/datasets_{share_of('clicks')}.py")
    assert not bag.import_errors
    assert "schedule:" in bag.dags["build.clicks"].doc_md


def test_a_data_set_keeps_its_share_and_shares_are_alike():
    assert [share_of(name) for name in ("clicks", "views", "flights", "digits")] == [1, 7, 2, 2]
    sizes = Counter(share_of(f"set{number}") for number in range(800))
    assert len(sizes) == NUM_SHARES
    assert max(sizes.values()) < 150


def test_specifications_that_would_hang_or_are_huge_touch_no_other(add, load, datasets):
    for name in ("clicks", "views", "buys"):
        add(name)
    for name in ("views", "buys"):
        (datasets / name / "dataset.yaml").unlink()
    os.mkfifo(datasets / "views" / "dataset.yaml")
    (datasets / "buys" / "dataset.yaml").write_bytes(b"# " * (1 << 20))
    bag = load()
    assert set(bag.dags) - DAGS_OF_NO_DATA_SET == OF_CLICKS
    said = "\n".join(bag.import_errors.values())
    assert "views/dataset.yaml:1: expected a plain file, got a pipe" in said
    assert "buys/dataset.yaml:1: expected at most 262144 bytes, got more" in said


def test_the_reference_in_the_documentation_is_what_the_dags_say():
    place = ROOT / "docs" / "document_dags.py"
    made = runpy.run_path(str(place))["documents"]()
    for name, text in made.items():
        assert (place.parent / name).read_text() == text, "run: make docs"


MODEL = (
    'train: {{entry: "train:main", model: {{name: clicks, metrics: {{auc: {{min: 0.5}}}}{}}}}}\n'
)


@pytest.mark.parametrize(
    ("more", "tasks"),
    [
        ("", ["train", "evaluate", "promote"]),
        (", promote: approve", ["train", "evaluate", "approve", "promote"]),
        (", promote: by_hand", ["train", "evaluate"]),
    ],
)
def test_a_training_that_makes_a_model_goes_on_to_its_promotion(add, load, more, tasks):
    add("clicks", extra=MODEL.format(more))
    bag = load()
    assert bag.import_errors == {}
    dag = bag.dags["train.clicks"]
    assert [task.task_id for task in dag.topological_sort()] == tasks
    for upstream, downstream in pairwise(tasks):
        assert dag.get_task(upstream).downstream_task_ids == {downstream} | (
            {"promote"} if (upstream, len(tasks)) == ("evaluate", 4) else set()
        )


@pytest.mark.parametrize(
    ("more", "edges"),
    [
        (", download: {path: /start}", {"download_model": {"train"}, "promote": set()}),
        (
            ", upload: {path: /models}",
            {"require_upload": {"train"}, "promote": {"upload_model"}, "upload_model": set()},
        ),
        (
            ", promote: by_hand, upload: {path: /models}, download: {path: /start}",
            {
                "download_model": {"train"},
                "require_upload": {"train"},
                "evaluate": {"upload_model"},
            },
        ),
        (
            ", promote: approve, upload: {path: /models}",
            {"approve": {"promote"}, "promote": {"upload_model"}},
        ),
    ],
)
def test_models_are_transferred_before_and_after_a_training(add, load, more, edges):
    add("clicks", extra=MODEL.format(more))
    bag = load()
    assert bag.import_errors == {}
    dag = bag.dags["train.clicks"]
    for task, downstream in edges.items():
        assert dag.get_task(task).downstream_task_ids == downstream
    assert dag.get_task("train").start_model is None or "download_model" in edges


def test_a_training_without_a_model_is_one_task(add, load):
    add("clicks")
    assert load().dags["train.clicks"].task_ids == ["train"]


def test_the_form_of_models_asks_for_everything_and_explains_it(load):
    params = load("dags/models.py").dags["models"].params
    assert list(params) == ["action", "model", "version", "why"]
    for name in params:
        param = params.get_param(name)
        assert param.schema["title"]
        assert param.description.endswith(".")


def test_the_form_of_tags_asks_for_everything_and_explains_it(load):
    params = load("dags/tag.py").dags["tag"].params
    for name in params:
        assert params.get_param(name).schema["title"]
        assert params.get_param(name).description.endswith(".")


UPLOADS = "uploads: {key: [id], labels: [label], join: left, defaults: {label: -1}}\n"
WITH_KEY = {
    "schema: {label: {dtype: int64}}": "schema: {id: {dtype: int64}, label: {dtype: int64}}"
}


def test_a_data_set_with_uploads_has_a_dag_that_takes_them(add, load):
    add("clicks", extra=UPLOADS, **WITH_KEY)
    add("views", extra="")
    bag = load()
    assert bag.import_errors == {}
    assert set(bag.dags) - DAGS_OF_NO_DATA_SET == {
        *("build.clicks", "uploads.clicks", "waive.clicks"),
        *("build.views", "waive.views"),
    }
    dag = bag.dags["uploads.clicks"]
    edges = {task.task_id: task.downstream_task_ids for task in dag.tasks}
    assert edges == {"check": {"build", "settle"}, "build": set(), "settle": set()}
    assert dag.get_task("check").outlets == [
        Asset(name="clicks.uploads", uri="trainfeed://clicks/uploads")
    ]
    assert (dag.catchup, dag.max_active_runs, dict(dag.params)) == (False, 1, {})
    build = dag.get_task("build")
    assert build.is_mapped
    assert build.partial_kwargs["trigger_dag_id"] == "build.clicks"
    assert build.partial_kwargs["skip_when_already_exists"]


def test_the_dag_of_uploads_is_serialized_and_looks_four_times_an_hour(add, load, monkeypatch):
    add("clicks", extra=UPLOADS, **WITH_KEY)
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "uploads.clicks")
    ((name, dag),) = load(f"dags/datasets_{share_of('clicks')}.py").dags.items()
    assert (name, dag.schedule) == ("uploads.clicks", "*/15 * * * *")
    assert round_trip(dag).task_ids == dag.task_ids
    for task in dag.tasks:
        assert task.retries == 2
        assert task.execution_timeout is not None


def test_the_form_says_that_a_rebuild_takes_newer_uploads_where_there_can_be_any(add, load):
    add("clicks", extra=UPLOADS, **WITH_KEY)
    add("views", extra="")
    bag = load()
    said = {
        name: bag.dags[f"build.{name}"].params.get_param("rebuild").description
        for name in ("clicks", "views")
    }
    assert "takes uploads that came after the published version" in said["clicks"]
    assert "uploads" not in said["views"]


def test_the_example_of_a_form_is_of_its_data_set(add, load):
    add("clicks")
    waive = load("dags").dags["waive.clicks"]
    told = waive.params.get_param("interval").description
    assert "2026-01-01" in told
    assert "2013" not in told


def test_the_page_on_deployment_names_every_dag(add, load):
    add("clicks")
    (row,) = [
        line
        for line in (ROOT / "docs/operations/deploy.md").read_text().splitlines()
        if line.startswith("| which DAGs |")
    ]
    known = {dag.replace("clicks", "X") for dag in load("dags").dags}
    assert known > DAGS_OF_NO_DATA_SET
    assert [dag for dag in sorted(known) if f"`{dag}`" not in row] == []
