"""The part ``uploads`` of a specification: its rules, and its place in the fingerprint."""

import pytest

from tests.unit.pipeline.clicks import CODE
from tests.unit.uploads.labelled import SPEC
from trainfeed.errors import SpecError
from trainfeed.specification import fingerprint_fields, load_spec

RIGHT = "{key: [id], labels: [label, note], join: left, defaults: {label: -1}}"


def load(tmp_path, part, by="record"):
    folder = tmp_path / "clicks"
    folder.mkdir(exist_ok=True)
    text = SPEC.replace(f"uploads: {RIGHT}", part).replace("eval: 0.2}", f"eval: 0.2, by: {by}}}")
    (folder / "dataset.yaml").write_text(text)
    (folder / "preprocess.py").write_text(CODE)
    return load_spec(folder)


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("{key: [ib], labels: [label], join: inner}", "key[0]: expected a field of the schema"),
        ("{key: [id], labels: [lable], join: inner}", "labels[0]: expected a field of the schema"),
        ("{key: [id, id], labels: [label], join: inner}", "key: expected different fields"),
        ("{key: [], labels: [label], join: inner}", "key: expected at least one entry"),
        ("{key: [id], labels: [], join: inner}", "labels: expected at least one entry"),
        ("{key: [value], labels: [label], join: inner}", "key[0]: expected a field that every"),
        ("{key: [note], labels: [label], join: inner}", "key[0]: expected a field that every"),
        ("{key: [id], labels: [id, label], join: inner}", "labels[0]: expected a field that is no"),
        ("{key: [id], labels: [label]}", "join: required"),
        ("{key: [id], labels: [label], join: outer}", "join: expected 'inner' or 'left'"),
        ("{key: [id], labels: [label], join: left}", "labels[0]: expected a default for 'label'"),
        (
            "{key: [id], labels: [label], join: inner, defaults: {label: 1}}",
            "defaults: expected no defaults",
        ),
        (RIGHT.replace("-1", "300"), "defaults.label: expected a value of int8, got 300"),
        (RIGHT.replace("-1", "0.5"), "defaults.label: expected a value of int8, got 0.5"),
        (RIGHT.replace("-1", "true"), "defaults.label: expected a value of int8, got True"),
        (RIGHT.replace("-1", "[1]"), "defaults.label: expected a number, a text, true or false"),
        (RIGHT.replace("label: -1", "label: 1, lebal: 2"), "defaults.lebal: expected a label of"),
        ("{key: [id], labels: [label, value, note], join: inner, column: x}", "column: unknown"),
    ],
)
def test_a_wrong_part_is_refused_at_its_place(tmp_path, part, expected):
    with pytest.raises(SpecError) as refused:
        load(tmp_path, f"uploads: {part}")
    assert f"uploads.{expected}" in str(refused.value)


def test_a_label_cannot_decide_the_split(tmp_path):
    part = f"uploads: {RIGHT}"
    with pytest.raises(SpecError, match=r"uploads\.labels\[0\]: expected a field that is not in"):
        load(tmp_path, part, by="[label]")


def test_the_function_makes_all_fields_but_the_labels(tmp_path):
    spec = load(tmp_path, f"uploads: {RIGHT}")
    assert [field["name"] for field in spec.function_fields()] == ["id", "value"]
    assert fingerprint_fields(spec)["uploads"] == {
        "key": ["id"],
        "labels": ["label", "note"],
        "join": "left",
        "defaults": {"label": -1},
    }


def test_without_the_part_the_fingerprint_is_that_of_before(tmp_path):
    spec = load(tmp_path, "")
    assert "uploads" not in fingerprint_fields(spec)
    assert spec.function_fields() == spec.schema_fields()


def test_the_size_limit_is_no_part_of_the_fingerprint(tmp_path):
    small = load(tmp_path, f"uploads: {RIGHT[:-1]}, max_file_bytes: 1KiB}}")
    found = fingerprint_fields(small)
    assert found == fingerprint_fields(load(tmp_path, f"uploads: {RIGHT}"))
