"""Batches of Examples: layouts that differ, and unexpected features."""

from __future__ import annotations

import numpy as np
import pytest

from trainfeed.errors import ConfigError, FormatError
from trainfeed.tfrecord import ExampleCodec, encode_example, parse_examples
from trainfeed.tfrecord import parse as parsing

FIELDS = {"image": ("uint8", (4,)), "label": ("int64", ())}


def records_of(labels):
    return [
        encode_example({"image": bytes([i % 256] * 4), "label": int(label)})
        for i, label in enumerate(labels)
    ]


@pytest.fixture
def one_by_one(monkeypatch):
    """How many records were parsed on their own."""
    counts = {"rows": 0}
    parse_row = parsing.parse_row

    def counting(*args):
        counts["rows"] += 1
        return parse_row(*args)

    monkeypatch.setattr(parsing, "parse_row", counting)
    return counts


def check(labels):
    columns = parse_examples(records_of(labels), FIELDS)
    assert columns["label"].dtype == np.int64
    assert columns["label"].tolist() == labels
    assert columns["image"].tolist() == [[i % 256] * 4 for i in range(len(labels))]
    for column in columns.values():
        column[:1] = 0  # owned, not a view of read-only records


def test_records_of_one_layout_are_parsed_at_once(one_by_one):
    check([3, 1, 4, 1, 5, 9, 2, 6])
    assert one_by_one["rows"] == 0


def test_records_of_some_layouts_are_parsed_at_once(one_by_one):
    check([1, 300, -1, 2, 301, -2, 3, 302, -3, 4, 303, -4])
    assert one_by_one["rows"] == 0


def test_records_of_one_length_and_different_keys_are_told_apart(one_by_one):
    records = [
        encode_example({key: [1], "label": i})
        for i in range(6)
        for key in ("aaaa", "bbbb", "label")
    ]
    assert parse_examples(records, {"label": ("int64", ())})["label"].tolist() == [
        value for i in range(6) for value in (i, i, i)
    ]
    assert one_by_one["rows"] == 0


def test_layouts_of_the_batch_before_are_no_promise(one_by_one):
    """Records of one length, whose fields lie elsewhere or are not there."""
    codec = ExampleCodec({"label": ("int64", ()), "x": ("int64", ())})
    for x, label in ((1, 300), (300, 1), (2, 301)):
        columns = codec.decode_records([encode_example({"x": x, "label": label})] * 9)
        assert columns["x"].tolist() == [x] * 9
        assert columns["label"].tolist() == [label] * 9
    assert one_by_one["rows"] == 0
    with pytest.raises(FormatError, match=r"record 0: field 'label': .* got nothing"):
        codec.decode_records([encode_example({"x": 2, "lapel": 301})] * 9)


def test_many_lengths_are_parsed():
    codec = ExampleCodec({"x": ("bytes", ())})
    for _ in range(2):
        records = [encode_example({"x": bytes(i // 4)}) for i in range(400)]
        column = codec.decode_records(reversed(records))["x"]
        assert column.tolist() == [bytes(i // 4) for i in reversed(range(400))]


def test_long_records_are_parsed_one_by_one(one_by_one):
    records = [encode_example({"x": bytes([i]) * (1 << 18)}) for i in range(5)]
    column = parse_examples(records, {"x": ("uint8", (1 << 18,))})["x"]
    assert column[:, -1].tolist() == [0, 1, 2, 3, 4]
    assert one_by_one["rows"] == 5


def test_few_records_are_parsed_one_by_one(one_by_one):
    check([1, 2, 300])
    check([])
    check([7])
    assert one_by_one["rows"] == 4


def test_other_writers_forms_are_parsed(message):
    """Keys in any order, numbers not packed, several lists: never the layout of the template."""
    label = message(1, message(1, b"label"), message(2, message(3, message(1, b"\x07"))))
    image = message(1, message(1, b"image"), message(2, message(1, message(1, b"abcd"))))
    unpacked = message(1, message(1, b"label"), message(2, message(3, b"\x08\x07")))
    merged = message(1, message(1, b"label"), message(2, message(3), message(3, b"\x08\x07")))
    forms = [
        message(1, *parts)
        for parts in ((label, image), (image, label), (image, unpacked), (merged, image))
    ]
    columns = parse_examples(forms * 5, FIELDS)
    assert columns["label"].tolist() == [7] * 20
    assert columns["image"].tobytes() == b"abcd" * 20


def test_more_layouts_than_are_tried_are_parsed(message, one_by_one):
    records = [encode_example({"label": i, f"other{j:02}": 1}) for i in range(3) for j in range(20)]
    labels = parse_examples(records, {"label": ("int64", ())})["label"].tolist()
    assert labels == [i for i in range(3) for _ in range(20)]
    assert one_by_one["rows"] > 0


def test_a_varint_that_ends_elsewhere_is_no_part_of_the_layout():
    """300 and 1 take 3 bytes, and so do 1 and 300."""
    records = [encode_example({"x": x}) for x in [[300, 1]] * 5 + [[1, 300]] * 5]
    columns = parse_examples(records, {"x": ("int64", (2,))})
    assert columns["x"].tolist() == [[300, 1]] * 5 + [[1, 300]] * 5


def test_numbers_are_read_from_any_list_that_holds_them():
    cases = [
        ("int32", [-5, 7]),
        ("uint64", [5, 7]),
        ("bool", [0, 1]),
        ("float64", [0.5, 7.0]),
        ("float16", [0.5, 7.0]),
        ("float64", np.array([0.1, 0.2]).tobytes()),
        ("int16", np.array([-1, 2], "<i2").tobytes()),
        ("bool", b"\0\1"),
    ]
    for dtype, value in cases:
        column = parse_examples([encode_example({"x": value})] * 5, {"x": (dtype, (2,))})["x"]
        expected = (
            np.frombuffer(value, dtype) if isinstance(value, bytes) else np.array(value, dtype)
        )
        assert column.dtype == dtype
        assert column.tolist() == [expected.tolist()] * 5


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (("int64", ()), None),
        (("int64", ()), [1, 2]),
        (("int64", (None, 2)), [1, 2, 3]),
        (("int64", ()), 1.0),
        (("float32", ()), 1),
        (("int64", ()), [b"12345678", b"12345678"]),
        (("int64", ()), b"1234"),
        (("int64", ()), b"12345"),
        (("bool", ()), b"\2"),
        (("bool", ()), 2),
        (("int8", ()), 128),
        (("uint32", ()), -1),
        (("uint64", ()), -1),
        (("float16", ()), 0.1),
        (("float16", ()), 1e30),
        (("bytes", ()), 1),
        (("bytes", ()), []),
        (("str", ()), b"\xff"),
    ],
)
@pytest.mark.parametrize("num_good", [0, 9])
def test_feature_that_is_not_of_the_field_is_refused(field, value, num_good):
    good = b"12345678" if field[0] == "int64" else None
    records = [encode_example({"x": good})] * num_good if good and field[1] == () else []
    records.append(encode_example({"x": value}))
    with pytest.raises(
        FormatError, match=f"^record {len(records) - 1}: field 'x': expected "
    ) as caught:
        parse_examples(records, {"x": field})
    assert "got" in str(caught.value)
    with pytest.raises(FormatError, match=r"^record 0: field 'x': expected "):
        parse_examples([encode_example({"x": value})] * 9, {"x": field})


def test_first_of_several_bad_records_is_named():
    records = records_of(range(20))
    records[7] = records[13] = records[7][:-1]
    records[5] = encode_example({"label": 1})
    with pytest.raises(FormatError, match=r"^record 5: field 'image': expected .* got nothing"):
        parse_examples(records, FIELDS)
    with pytest.raises(FormatError, match=r"^record 7: "):
        parse_examples(records, {"label": ("int64", ())})


@pytest.mark.parametrize(
    "fields",
    [
        {"x": ("object", ())},
        {"x": ("complex64", ())},
        {"x": ("nonsense", ())},
        {"x": ("longdouble", ())},
        {"x": ("bytes", (2,))},
        {"x": ("int64", (0,))},
        {"x": ("int64", (2, None))},
    ],
)
def test_fields_are_checked(fields):
    with pytest.raises(ConfigError, match="field 'x': expected"):
        parse_examples([], fields)


def test_variable_fields_of_one_value_stay_arrays():
    column = parse_examples([encode_example({"x": [1]})] * 9, {"x": ("int64", (None,))})["x"]
    assert column.dtype == object
    assert [(row.shape, row.tolist()) for row in column] == [((1,), [1])] * 9
