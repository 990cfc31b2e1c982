"""The DAG ``convert``: its form, its tasks, and that they make the same files as one process."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.sdk.exceptions import AirflowFailException, ParamValidationError
from airflow.serialization.serialized_objects import DagSerialization

from operators.convert import (
    GatherShardsOperator,
    PlanConversionOperator,
    PublishConversionOperator,
    ScatterFilesOperator,
)
from trainfeed.conversion import convert, convert_files
from trainfeed.samples import Field, Schema

# Airflow's own reading of .airflowignore.
pytestmark = pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")

SCHEMA = Schema((Field("label", "int64"), Field("text", "str")))
FORM = {
    "input": "raw/raw-*",
    "output": "new",
    "shards": 5,
    "prefix": "p",
    "seed": 9,
    "format": "recordio",
    "codec": "none",
}


@pytest.fixture
def dag(load):
    bag = load("dags/convert.py")
    assert bag.import_errors == {}
    return bag.dags["convert"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Folders with a set of shards to convert, and the connection that allows them."""
    for name in ("in", "out", "work"):
        (tmp_path / name).mkdir()
    samples = [{"label": n, "text": f"é{n}"} for n in range(200)]
    convert(tmp_path / "in" / "raw", lambda: samples, 3, "raw", schema=SCHEMA)
    extra = {
        "inputs": [str(tmp_path / "in")],
        "outputs": [str(tmp_path / "out")],
        "work": str(tmp_path / "work"),
    }
    connect(monkeypatch, extra)
    return tmp_path


def connect(monkeypatch, extra):
    value = json.dumps({"conn_type": "generic", "extra": extra})
    monkeypatch.setenv("AIRFLOW_CONN_CONVERT_DEFAULT", value)


def run(dag, name="march", **changes):
    """Execute the tasks in order, as Airflow would; return the report of the last one."""
    pushed = {}
    context = {
        "params": FORM | changes,
        "dag": dag,
        "dag_run": SimpleNamespace(
            dag_id="convert", run_id=name, run_after=datetime(2026, 3, 1, tzinfo=UTC)
        ),
        "ti": SimpleNamespace(xcom_push=lambda key, value: pushed.update({key: value})),
    }
    units = PlanConversionOperator(task_id="plan").execute(context)
    for step in (ScatterFilesOperator, GatherShardsOperator):
        for unit in units:
            report = step(task_id="step", plan=pushed["plan"], unit=unit).execute(context)
            assert json.loads(json.dumps(report)) == report
    return PublishConversionOperator(task_id="publish", plan=pushed["plan"]).execute(context)


def test_the_tasks_are_one_chain_with_two_mapped_steps(dag):
    assert dag.task_ids == ["plan", "scatter", "gather", "publish"]
    assert [task.is_mapped for task in dag.tasks] == [False, True, True, False]
    assert {task.retries for task in dag.tasks} == {2}
    assert all(task.execution_timeout for task in dag.tasks)
    assert dag.schedule is None
    restored = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
    assert restored.task_ids == dag.task_ids


def test_a_run_that_failed_and_is_made_again_converts_what_it_is_asked_for_now(dag, place):
    (place / "in" / "wrong.csv").write_text("a,b\n1\n")
    with pytest.raises(AirflowFailException):
        run(dag, input="wrong.csv")
    run(dag, shards=2)
    assert run(dag, shards=8)["shards"] == 8
    assert len(list((place / "out" / "new").glob("p-*"))) == 8


def test_a_failure_stays_on_the_page_of_the_run(dag, place):
    context, pushed = {}, {}
    context["ti"] = SimpleNamespace(xcom_push=lambda key, value: pushed.update({key: value}))
    for step in (
        ScatterFilesOperator(task_id="scatter", plan="none", unit=0),
        GatherShardsOperator(task_id="gather", plan="none", unit=0),
        PublishConversionOperator(task_id="publish", plan="none"),
    ):
        pushed.clear()
        with pytest.raises(AirflowFailException):
            step.execute(context)
        assert pushed["failure"]["error"] == "NotFoundError"


def test_a_parameter_that_nobody_knows_converts_nothing(dag, place):
    with pytest.raises(AirflowFailException, match=r"got 'shard'.*did you mean 'shards'\?"):
        run(dag, shard=7)
    assert not list((place / "out").iterdir())


@pytest.mark.parametrize(
    "change",
    [
        {"input": ""},
        {"shards": 0},
        {"shards": 100_001},
        {"shards": "ten"},
        {"prefix": "../p"},
        {"prefix": ""},
        {"format": "parquet"},
        {"codec": "rar"},
        {"seed": 1.5},
    ],
    ids=str,
)
def test_the_form_refuses_what_makes_no_sense(dag, change):
    params = copy.deepcopy(dag.params)
    for name, value in FORM.items():
        params[name] = value
    ((name, value),) = change.items()
    with pytest.raises(ParamValidationError):
        params[name] = value


@pytest.mark.parametrize("file_format", ["recordio", "tfrecord"])
def test_the_tasks_make_the_files_of_a_local_conversion(dag, place, file_format):
    from trainfeed.conversion import ConvertOptions

    report = run(dag, format=file_format)
    assert (report["verdict"], report["samples"], report["shards"]) == ("published", 200, 5)
    options = ConvertOptions(file_format=file_format)
    convert_files(place / "in" / "raw", place / "local", 5, "p", seed=9, options=options)
    found, expected = (
        {path.name: path.read_bytes() for path in folder.iterdir()}
        for folder in (place / "out" / "new", place / "local")
    )
    assert found == expected
    assert len(expected) == 6


@pytest.mark.parametrize(
    "change",
    [
        {"input": "/etc/hosts"},
        {"input": "../in/raw/raw-*"},
        {"input": "nothing-*"},
        {"output": "../elsewhere"},
        {"output": "/tmp/elsewhere"},
        {"codec": "zlib"},
    ],
    ids=str,
)
def test_what_leads_outside_or_cannot_be_done_fails_at_once(dag, place, change):
    with pytest.raises(AirflowFailException):
        run(dag, **change)
    assert list((place / "out").iterdir()) == []


@pytest.mark.parametrize(
    "extra",
    [
        {},
        {"inputs": ["/a"], "outputs": ["/b"]},
        {"inputs": [], "outputs": ["/b"], "work": "/c"},
        {"inputs": ["a"], "outputs": ["/b"], "work": "/c"},
        {"inputs": ["/"], "outputs": ["/b"], "work": "/c"},
        {"inputs": "/a", "outputs": ["/b"], "work": "/c"},
    ],
    ids=str,
)
def test_an_incomplete_connection_says_how_to_mend_it(dag, monkeypatch, extra):
    connect(monkeypatch, extra)
    with pytest.raises(AirflowFailException, match="airflow connections add convert_default"):
        run(dag)


def test_a_missing_connection_says_how_to_add_it(dag, monkeypatch):
    from airflow.sdk import Connection
    from airflow.sdk.exceptions import AirflowNotFoundException

    def missing(name):
        raise AirflowNotFoundException(name)

    monkeypatch.setattr(Connection, "get", missing)
    with pytest.raises(AirflowFailException, match="airflow connections add convert_default"):
        run(dag)


def test_the_form_says_what_is_between_cells_and_what_becomes_of_structs(dag, place):
    from trainfeed.conversion import ColumnOptions, CsvOptions, SourceOptions

    (place / "in" / "a.csv").write_text("a;b,c\n" + "".join(f"{n};x,y\n" for n in range(9)))
    rows = {"image": [{"bytes": b"x", "path": "p"}] * 9, "tags": [["a"]] * 9}
    pq.write_table(pa.table(rows), place / "in" / "b.parquet")
    asked = {
        "a.csv": ({"delimiter": ";"}, SourceOptions(csv=CsvOptions(";"))),
        "b.parquet": (
            {"flatten": "image", "json_columns": "tags", "rename": "image.path=name, tags=words"},
            SourceOptions(
                columns=ColumnOptions(
                    ("image",), ("tags",), (("image.path", "name"), ("tags", "words"))
                )
            ),
        ),
    }
    for name, (changes, source) in asked.items():
        with pytest.raises(AirflowFailException):
            run(dag, input=name, output=f"not-{name}")
        run(dag, input=name, output=name, **changes)
        convert_files(place / "in" / name, place / f"local-{name}", 5, "p", seed=9, source=source)
        found, expected = (
            {path.name: path.read_bytes() for path in folder.iterdir()}
            for folder in (place / "out" / name, place / f"local-{name}")
        )
        assert found == expected


def test_the_form_offers_what_files_do_not_say(dag):
    asked = ("delimiter", "flatten", "json_columns", "rename")
    assert {name: dag.params[name] for name in asked} == dict.fromkeys(asked)
