"""Parameters of the function in dataset.yaml: what it gets, and that they determine the content."""

import json

import pytest

from trainfeed.errors import ConfigError, ConflictError, SpecError
from trainfeed.specification import fingerprint_fields, load_spec

CODE = """
from trainfeed.preprocessing import Filtered


def clicks(record, lookups, parameters):
    row = record.json()
    value = row.get("value")
    if value is None or value < parameters["least"]:
        return Filtered("small")
    return {"value": value * parameters["scale"], "label": len(parameters["names"])}
"""
BATCH = """
import pyarrow as pa
import pyarrow.compute as pc


def clicks(batch, lookups, parameters):
    rows = batch.column("_row")
    number = pa.array([float(parameters["scale"])] * batch.num_rows, pa.float32())
    label = pa.array([parameters["least"]] * batch.num_rows, pa.int64())
    return pa.RecordBatch.from_arrays([rows, number, label], names=["_row", "value", "label"])
"""
GIVEN = '{function: "preprocess:clicks", input: record}'


def giving(project, parameters, code=CODE, mode="record"):
    project.edit(
        GIVEN, f'{{function: "preprocess:clicks", input: {mode}, parameters: {parameters}}}'
    )
    (project.env.datasets / "clicks" / "preprocess.py").write_text(code)
    return project


def statistics_of(project):
    return json.loads((project.version().path / "statistics.json").read_text())


@pytest.mark.usefixtures("no_worker")
def test_a_function_gets_the_values_as_they_are_written(project):
    giving(project, "{least: 2, scale: 0.5, names: [a, b, c]}").build()
    assert project.version().manifest.ledger
    statistics = statistics_of(project)["train"]
    assert statistics["label"]["min"] == statistics["label"]["max"] == 3


@pytest.mark.usefixtures("no_worker")
def test_a_function_of_batches_gets_them_too(project):
    giving(project, "{least: 7, scale: 0.5}", BATCH, "batch").build()
    statistics = statistics_of(project)["train"]
    assert (statistics["label"]["min"], statistics["value"]["max"]) == (7, 0.5)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("1.0", 1.0),
        ("true", True),
        ("'1'", "1"),
        ("[1, a, 2.5]", (1, "a", 2.5)),
        ("[]", ()),
    ],
)
def test_a_value_has_the_type_that_it_is_written_with(project, text, value):
    giving(project, f"{{x: {text}}}")
    found = load_spec(project.env.datasets / "clicks").preprocess.parameters["x"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    "text", ["{x: {y: 1}}", "{x: [[1]]}", "{x: null}", "{x: 9223372036854775808}", "{X: 1}", "[1]"]
)
def test_a_value_that_json_or_a_function_may_read_otherwise_is_refused(project, text):
    with pytest.raises(SpecError, match=r"parameters"):
        load_spec(giving(project, text).env.datasets / "clicks")


def test_without_parameters_the_fingerprint_is_what_it_was(project):
    spec = load_spec(project.env.datasets / "clicks")
    assert fingerprint_fields(spec)["preprocess"] == {
        "function": "preprocess:clicks",
        "input": "record",
    }


@pytest.mark.usefixtures("no_worker")
def test_another_value_is_another_version_and_an_equal_one_is_identical(project):
    giving(project, "{least: 2, scale: 0.5, names: [a]}")
    first = project.build()
    project.edit("{least: 2, scale: 0.5, names: [a]}", "{names: ['a'], scale: 0.50, least: 2}")
    assert project.build()["verdict"] == "identical"
    project.edit("scale: 0.50", "scale: 0.25")
    with pytest.raises(ConflictError, match=r"scale"):
        project.build()
    second = project.build(rebuild="other scale")
    assert second["content_digest"] != first["content_digest"]


@pytest.mark.usefixtures("no_worker")
@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        ("{least: 1}", "def clicks(record, lookups):\n    return {}\n"),
        ("{}", "def clicks(record, lookups, parameters):\n    return {}\n"),
    ],
)
def test_a_function_that_takes_something_else_is_refused_before_a_record_is_read(
    project, parameters, code
):
    with pytest.raises(ConfigError, match="expected def clicks"):
        giving(project, parameters, code).build()


@pytest.mark.usefixtures("no_worker")
def test_a_function_cannot_keep_anything_in_its_parameters(project):
    code = CODE.replace("    row =", '    parameters["seen"] = 1\n    row =')
    with pytest.raises(Exception, match="does not support item assignment"):
        giving(project, "{least: 2, scale: 0.5, names: []}", code).build()
