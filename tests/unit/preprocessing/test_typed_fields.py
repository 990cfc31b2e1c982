"""Typed fields: one function serves values of JSON and sources with fields of their own."""

import copy
import json
import pickle
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from trainfeed.pipeline.functions.modes import iter_landed
from trainfeed.pipeline.functions.user_function import source_batch
from trainfeed.preprocessing import Record, Reject, columns_of, iter_records, plain_reader, whole
from trainfeed.preprocessing.source_record import TypedRecord
from trainfeed.preprocessing.typed_fields import iter_fields
from trainfeed.sources import LANDING_SCHEMA

ROWS = [
    {"a": 1, "x": 0.5, "s": "Ärger", "b": True},
    {"a": None, "x": None, "s": None, "b": None},
    {"a": -128, "x": -0.0, "s": "", "b": False},
    {"a": 127, "x": 2.0, "s": "x" * 50, "b": None},
]
KINDS = {"a": pa.int64(), "x": pa.float64(), "s": pa.utf8(), "b": pa.bool_()}


def landed(values, fields=None):
    """A batch as a reader yields it; with ``fields``, an array of structs, it is a typed one."""
    rows = [
        {"offset": i, "timestamp": 5, "timestamp_type": 0, "key": None, "value": v, "headers": None}
        for i, v in enumerate(values)
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=LANDING_SCHEMA)
    return batch if fields is None else batch.append_column("fields", fields)


def as_json(rows=ROWS):
    return source_batch(landed([json.dumps(row).encode() for row in rows]), "kafka:t/0")


def as_structs(fields):
    return source_batch(landed([None] * len(fields), fields), "logs:a.parquet")


def structs(rows=ROWS, **kinds):
    kinds = {**KINDS, **kinds}
    return pa.array(rows, pa.struct(kinds))


def test_a_batch_without_typed_fields_is_as_it_was_and_one_with_them_has_one_column_more():
    plain, typed = as_json(), as_structs(structs())
    assert plain.schema.names == [
        "value",
        "key",
        "timestamp",
        "headers",
        "source",
        "offset",
        "_row",
    ]
    assert typed.schema.names == [*plain.schema.names, "fields"]


@pytest.mark.parametrize(
    "kinds",
    [
        {},
        {"a": pa.int8(), "s": pa.large_utf8()},
        {"a": pa.int16(), "x": pa.float32(), "s": pa.string_view()},
        {"s": pa.dictionary(pa.int32(), pa.utf8())},
    ],
)
def test_columns_of_typed_fields_are_those_of_equal_json(kinds):
    rows, found = columns_of(as_structs(structs(**kinds)), KINDS)
    expected_rows, expected = columns_of(as_json(), KINDS)
    assert rows.tolist() == expected_rows.tolist() == [0, 1, 2, 3]
    assert found.equals(expected)
    assert str(found["x"].to_pylist()) == "[0.5, None, -0.0, 2.0]"


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64(), pa.int32()])
def test_a_number_that_the_type_cannot_hold_is_not_plain_as_in_json(kind):
    rows = [{"a": 1}, {"a": 200}, {"a": None}, {"a": 127}]
    typed = as_structs(pa.array(rows, pa.struct({"a": kind})))
    for batch in (typed, as_json(rows)):
        plain, columns = columns_of(batch, {"a": pa.int8()})
        assert plain.tolist() == [0, 2, 3]
        assert columns["a"].to_pylist() == [1, None, 127]


def test_nothing_is_cast_with_a_loss():
    numbers = pa.array(
        [{"a": 1 << 53, "u": 1}, {"a": (1 << 53) + 1, "u": 1 << 63}],
        pa.struct({"a": pa.int64(), "u": pa.uint64()}),
    )
    assert columns_of(as_structs(numbers), {"a": pa.float64()})[0].tolist() == [0]
    assert columns_of(as_structs(numbers), {"u": pa.int64()})[0].tolist() == [0]
    floats = as_structs(pa.array([{"a": 1.0}], pa.struct({"a": pa.float64()})))
    for kind in (pa.int64(), pa.utf8(), pa.bool_()):
        assert columns_of(floats, {"a": kind})[0].tolist() == []


def test_a_field_that_the_source_lacks_makes_no_record_plain_and_one_of_nulls_all():
    batch = as_structs(pa.array(ROWS, pa.struct({"a": pa.int64(), "n": pa.null()})))
    rows, columns = columns_of(batch, {"a": pa.int64(), "other": pa.int64()})
    assert (rows.tolist(), columns.num_rows) == ([], 0)
    rows, columns = columns_of(batch, {"n": pa.float64()})
    assert (rows.tolist(), columns["n"].null_count) == ([0, 1, 2, 3], 4)


def test_a_record_without_a_value_is_not_plain_in_either_kind():
    typed = as_structs(structs([ROWS[0], None, ROWS[2]]))
    as_values = source_batch(
        landed([json.dumps(ROWS[0]).encode(), None, json.dumps(ROWS[2]).encode()]), "kafka:t/0"
    )
    for batch in (typed, as_values):
        assert columns_of(batch, KINDS)[0].tolist() == [0, 2]
        ((_, record),) = iter_records(batch, [1])
        with pytest.raises(Reject, match="null_value"):
            _ = record.fields


def test_the_very_type_of_a_field_may_be_asked_for_and_another_one_is_refused():
    kind = pa.list_(pa.float32())
    batch = as_structs(pa.array([{"e": [1.0, 2.0]}], pa.struct({"e": kind})))
    assert columns_of(batch, {"e": kind})[1]["e"].to_pylist() == [[1.0, 2.0]]
    with pytest.raises(TypeError, match="type of the field"):
        columns_of(batch, {"e": pa.list_(pa.float64())})


def test_slices_of_batches_have_their_own_rows():
    typed = as_structs(structs([None, *ROWS])).slice(1, 3)
    rows, columns = columns_of(typed, KINDS)
    assert rows.tolist() == [0, 1, 2]
    assert columns.to_pylist() == ROWS[:3]


WIDE = {
    **KINDS,
    "t": pa.timestamp("us", "UTC"), "d": pa.date32(), "l": pa.list_(pa.int16()), "y": pa.binary(),
    "u": pa.uint64(), "f": pa.float32(), "st": pa.struct({"z": pa.int8()}), "i": pa.int8(),
}  # fmt: skip


def test_fields_of_single_records_are_those_of_the_column():
    rows = [
        {**dict.fromkeys(WIDE), **ROWS[0], "t": datetime(2024, 3, 1, tzinfo=UTC), "l": [1, None]},
        None,
        {
            **dict.fromkeys(WIDE),
            "u": (1 << 64) - 1,
            "f": 0.5,
            "st": {"z": None},
            "y": b"\xff",
            "i": -7,
        },
        {**dict.fromkeys(WIDE), "x": float("inf"), "f": float("nan")},
    ]
    column = pa.array(rows, pa.struct(WIDE))
    for part in (column, column.slice(1, 2), column.slice(3)):
        found, expected = list(iter_fields(part)), part.to_pylist()
        assert repr(found) == repr(expected)
    assert list(iter_fields(pa.array([{}, None], pa.struct([])))) == [{}, None]


def test_record_and_batch_mode_give_equal_records_with_the_fields_by_name():
    for batch in (landed([None] * 4, structs()), landed([json.dumps(r).encode() for r in ROWS])):
        singles = list(iter_landed(batch, "logs:a"))
        rows = list(iter_records(source_batch(batch, "logs:a"), range(4)))
        assert [record.fields for record in singles] == ROWS
        assert [record.fields for _, record in rows] == ROWS
        assert [record.json() for record in singles] == ROWS
        assert [record for _, record in rows] == singles
        assert [row for row, _ in rows] == [0, 1, 2, 3]


def test_values_that_are_no_object_have_no_fields():
    for value, reason in ((b"[1]", "not_an_object"), (b"{", "not_json"), (None, "null_value")):
        with pytest.raises(Reject) as caught:
            _ = Record(value, None, 0, (), "kafka:t/0", 0).fields
        assert caught.value.reason == reason


def test_a_typed_record_is_a_record_in_every_way():
    record = TypedRecord.of((None, b"k", 1000, (), "logs:a", 3), {"a": 1})
    assert isinstance(record, Record)
    assert record == Record(None, b"k", 1000, (), "logs:a", 3)
    assert record.timestamp == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert "offset=3" in repr(record)
    for other in (pickle.loads(pickle.dumps(record)), copy.copy(record), record._replace(offset=3)):
        assert (type(other), other, other.fields) == (TypedRecord, record, {"a": 1})
    assert plain_reader({"a": whole(0, 9)})(record) is None


def test_a_function_that_reads_fields_by_columns_gives_equal_samples_for_both_kinds():
    def function(batch):
        rows, columns = columns_of(batch, {"a": pa.int32(), "x": pa.float64()})
        rest = np.setdiff1d(np.arange(batch.num_rows), rows)
        return columns.to_pylist(), [record.fields["a"] for _, record in iter_records(batch, rest)]

    rows = [*ROWS, {**ROWS[0], "a": 1 << 40}]
    kinds = {name: KINDS[name] for name in ("a", "x")}
    typed = as_structs(pa.array(rows, pa.struct(kinds)))
    assert function(typed) == function(as_json(rows))
    assert function(typed)[1] == [1 << 40]
