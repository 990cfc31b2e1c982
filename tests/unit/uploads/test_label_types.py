"""Labels of every type and shape, through both modes, to equal records."""

import json

import pyarrow as pa
import pytest

from tests.unit.uploads.labelled import SPEC, make_labelled
from trainfeed.errors import MemoryLimitError
from trainfeed.pipeline.labels import LabelJoin
from trainfeed.samples import Schema, TypedCodec
from trainfeed.samples.arrow import ColumnEncoder
from trainfeed.specification import load_spec
from trainfeed.uploads import LabelFields
from trainfeed.uploads.files import iter_rows
from trainfeed.uploads.labels import merged, table_of_rows

# Type of the label, JSON of a value, and a default if the type has one.
TYPES = [
    ("{dtype: bool}", "true", "false"),
    *((f"{{dtype: {kind}}}", "100", "7") for kind in ("int8", "uint8", "int64", "uint64")),
    *((f"{{dtype: {kind}}}", "0.5", "-1.5") for kind in ("float16", "float32", "float64")),
    ("{dtype: str, optional: true}", '"ü"', '"none"'),
    ("{dtype: bytes, optional: true}", '"AP8="', None),
    ("{dtype: float32, shape: [2, 2], optional: true}", "[[1, 2], [3, 4.5]]", None),
    ("{dtype: float16, shape: [2], optional: true}", "[1, 0.5]", None),
    ("{dtype: int16, shape: [null, 2], optional: true}", "[[1, 2], [3, 4]]", None),
    ("{dtype: bool, shape: [null], optional: true}", "[true, false]", None),
    ("{dtype: int64, optional: true}", "9007199254740993", None),
]
KEYS = [("int64", [1, 2]), ("str", ["a", "ü"]), ("bytes", [b"\0", b"b"]), ("bool", [True, False])]


@pytest.mark.parametrize(("label", "value", "default"), TYPES, ids=[row[0] for row in TYPES])
@pytest.mark.parametrize("key", KEYS, ids=[kind for kind, _ in KEYS])
def test_both_modes_encode_a_joined_sample_alike(tmp_path, label, value, default, key):
    kind, ids = key
    spec = specified(tmp_path, kind, label, default)
    fields, names = LabelFields.of(spec), {"str": str, "bytes": lambda b: {b"\0": "AA=="}[b]}
    shown = names.get(kind, lambda each: each)(ids[0])
    (tmp_path / "a").write_text(f'{{"id": {json.dumps(shown)}, "label": {value}}}\n')
    rows = iter_rows(tmp_path / "a", "jsonl", fields)
    labels = merged([table_of_rows(rows, fields, 0, 1 << 20)], fields, 1 << 20)
    samples = [{"id": each, "value": 0.5} for each in ids]
    schema = Schema.from_json(spec.schema_fields())
    by_record = [
        TypedCodec(schema).encode(sample)
        for sample in LabelJoin(spec, labels.table).of_samples(samples)
    ]
    batch, keep = LabelJoin(spec, labels.table).of_batch(pa.RecordBatch.from_pylist(samples))
    assert keep is None
    assert ColumnEncoder(schema).encode(batch).to_pylist() == by_record
    decoded = [TypedCodec(schema).decode(record)["label"] for record in by_record]
    assert decoded[0] is not None
    assert (decoded[1] is None) == (default is None)


def test_few_rows_of_large_labels_are_refused_before_they_are_all_in_memory(tmp_path):
    fields = LabelFields.of(specified(tmp_path, "int64", "{dtype: str, optional: true}", None))
    taken = []

    def rows():
        for number in range(1000):
            taken.append(number)
            yield {"id": number, "label": "x" * (1 << 20)}

    with pytest.raises(MemoryLimitError):
        table_of_rows(rows(), fields, 0, 16 << 20)
    assert len(taken) <= 16


def specified(tmp_path, key, label, default):
    make_labelled(tmp_path)
    text = SPEC.replace("id: {dtype: int64}", f"id: {{dtype: {key}}}")
    text = text.replace("label: {dtype: int8}", f"label: {label}")
    defaults = "" if default is None else f", defaults: {{label: {default}}}"
    text = text.replace(
        "labels: [label, note], join: left, defaults: {label: -1}",
        f"labels: [label], join: left{defaults}",
    )
    (tmp_path / "datasets/clicks/dataset.yaml").write_text(text)
    return load_spec(tmp_path / "datasets/clicks")
