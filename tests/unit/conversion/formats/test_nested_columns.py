"""Structs, maps and lists of text in Parquet and Arrow: fields, or JSON, on request."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainfeed.conversion import (
    ColumnOptions,
    SinkOptions,
    SourceOptions,
    convert_files,
    open_sample_file,
    renames_of,
    transcode,
)
from trainfeed.errors import ConfigError, FormatError
from trainfeed.samples import Field

IMAGES = pa.table(
    {
        "image": pa.array(
            [{"bytes": b"\xff\xd8", "path": "a.jpg"}, None, {"bytes": b"", "path": None}],
            pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
        ),
        "tags": pa.array([["a", "é"], [], None], pa.list_(pa.string())),
        "label": pa.array([1, 2, 3]),
    }
)


def write(path, table):
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table)
    return path


def opened(path, flatten=(), as_json=()):
    return open_sample_file(path, SourceOptions(columns=ColumnOptions(flatten, as_json)))


@pytest.fixture(params=["a.parquet", "a.arrow"])
def images(request, tmp_path):
    """A file of images as Hugging Face stores them."""
    return write(tmp_path / request.param, IMAGES)


def renamed(path, renames, flatten=(), as_json=()):
    columns = ColumnOptions(flatten, as_json, tuple(renames.items()))
    return open_sample_file(path, SourceOptions(columns=columns))


def test_columns_and_parts_of_structs_take_the_names_that_were_asked_for(images):
    renames = {"image.path": "name", "tags": "words", "label": "class_id"}
    source = renamed(images, renames, ("image",), ("tags",))
    assert source.schema.names == ("image.bytes", "name", "words", "class_id")
    before = [list(each.values()) for each in opened(images, ("image",), ("tags",)).samples()]
    assert [list(each.values()) for each in source.samples()] == before


@pytest.mark.parametrize(
    "renames", [{"none": "a"}, {"image": "picture"}, {"label": "tags"}, {"label": "not a name"}]
)
def test_a_rename_that_cannot_hold_is_refused(images, renames):
    with pytest.raises(ConfigError):
        renamed(images, renames, ("image",), ("tags",))


@pytest.mark.parametrize("name", ["user id", "a=b", "Zeit (s)"])
def test_a_column_whose_name_no_field_can_have_is_read_under_another(tmp_path, name):
    path = write(tmp_path / "a.parquet", pa.table({name: [1, 2]}))
    with pytest.raises(ConfigError, match="rename"):
        opened(path)
    source = renamed(path, dict(renames_of([f"{name}=user"])))
    assert [each["user"] for each in source.samples()] == [1, 2]


@pytest.mark.parametrize("pairs", [["a"], ["=b"], ["a="], ["a=b", "a=c"], [""]])
def test_texts_that_ask_for_no_rename_are_refused(pairs):
    with pytest.raises(ConfigError, match="OLD=NEW"):
        renames_of(pairs)


def test_a_struct_is_refused_by_a_message_that_names_the_ways(images):
    with pytest.raises(ConfigError) as error:
        opened(images)
    assert str(error.value).startswith(f"{images}: column 'image'")
    assert "--flatten image makes the fields image.bytes" in str(error.value)
    assert "--json-columns image" in str(error.value)


def test_a_list_of_text_is_refused_by_a_message_that_names_the_way(images):
    with pytest.raises(ConfigError, match="--json-columns tags"):
        opened(images, flatten=("image",))


def test_images_become_their_bytes_and_their_path(images):
    source = opened(images, flatten=("image",), as_json=("tags",))
    assert source.schema.names == ("image.bytes", "image.path", "tags", "label")
    assert [
        (s["image.bytes"], s["image.path"], s["tags"], s["label"]) for s in source.samples()
    ] == [
        (b"\xff\xd8", "a.jpg", '["a","é"]', 1),
        (None, None, "[]", 2),
        (b"", None, None, 3),
    ]


def test_images_become_shards(images, tmp_path):
    options = SourceOptions(columns=ColumnOptions(("image",), ("tags",)))
    manifest = convert_files(images, tmp_path / "out", 2, "p", source=options)
    assert manifest.num_samples == 3
    assert manifest.schema["image.bytes"] == Field("image.bytes", "bytes", (), optional=True)


def test_a_struct_as_json_has_its_bytes_in_base64(images):
    source = opened(images, as_json=("image", "tags"))
    texts = [sample["image"] for sample in source.samples()]
    assert texts == [
        '{"bytes":"/9g=","path":"a.jpg"}',
        None,
        '{"bytes":"","path":null}',
    ]
    assert base64.b64decode(json.loads(texts[0])["bytes"]) == b"\xff\xd8"


def test_structs_within_structs_flatten_unless_they_become_json(tmp_path):
    rows = [{"b": {"c": 1, "d": [[1], [2, 3]]}, "e": 2}]
    path = write(tmp_path / "a.arrow", pa.table({"a": rows}))
    assert list(opened(path, ("a",), ("a.b.d",)).samples()) == [
        {"a.b.c": 1, "a.b.d": "[[1],[2,3]]", "a.e": 2}
    ]
    assert list(opened(path, ("a",), ("a.b",)).samples()) == [
        {"a.b": '{"c":1,"d":[[1],[2,3]]}', "a.e": 2}
    ]


def test_parts_that_hold_no_null_are_no_optional_fields(tmp_path):
    rows = [{"bytes": b"x", "path": None}, {"bytes": b"y", "path": "p"}]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    path = write(tmp_path / "a.parquet", pa.table({"image": pa.array(rows, kind)}))
    assert [field.optional for field in opened(path, ("image",)).schema] == [False, True]


@pytest.mark.parametrize(
    ("flatten", "as_json"),
    [(("nothing",), ()), ((), ("nothing",)), (("label",), ()), (("image.bytes",), ())],
)
def test_a_name_of_no_use_is_an_error(tmp_path, flatten, as_json):
    path = write(tmp_path / "a.arrow", IMAGES.select(["label"]))
    with pytest.raises(ConfigError, match="expected structs to flatten"):
        opened(path, flatten, as_json)


def test_a_flattened_part_cannot_take_the_name_of_a_column(tmp_path):
    path = write(tmp_path / "a.arrow", pa.table({"a": [{"b": 1}], "a.b": [2]}))
    with pytest.raises(ConfigError, match="expected different field names"):
        opened(path, ("a",))


def test_columns_of_other_formats_cannot_be_asked_for(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ConfigError, match="only columns of Parquet and Arrow"):
        opened(tmp_path / "a.csv", as_json=("a",))


def test_a_file_that_carries_its_schema_has_nothing_to_flatten(images, tmp_path):
    source = opened(images, ("image",), ("tags",))
    transcode(source, tmp_path / "ours.parquet", SinkOptions())
    with pytest.raises(ConfigError, match="carries a schema of trainfeed"):
        opened(tmp_path / "ours.parquet", as_json=("tags",))


KINDS = {
    "map": (pa.map_(pa.string(), pa.float64()), [("k", math.nan)], {"k": "NaN"}),
    "map of numbers": (pa.map_(pa.int32(), pa.string()), [(1, "x")], [[1, "x"]]),
    "list of lists": (pa.list_(pa.list_(pa.float32())), [[0.1], [math.inf]], [[0.1], ["Infinity"]]),
    "decimal": (pa.decimal128(5, 2), decimal.Decimal("1.50"), "1.50"),
    "duration": (pa.duration("ms"), datetime.timedelta(seconds=1), 1000),
    "times": (pa.list_(pa.date32()), [datetime.date(1970, 1, 2)], [1]),
    "dictionary": (pa.list_(pa.dictionary(pa.int8(), pa.string())), ["a"], ["a"]),
    "large integers": (pa.list_(pa.uint64()), [2**64 - 1], [2**64 - 1]),
    "fixed list": (pa.list_(pa.string(), 2), ["a", None], ["a", None]),
    "list of structs": (pa.list_(pa.struct([("a", pa.binary())])), [{"a": b"x"}], [{"a": "eA=="}]),
}


@pytest.mark.parametrize(("kind", "value", "expected"), KINDS.values(), ids=KINDS)
def test_every_nested_type_has_a_json_form(tmp_path, kind, value, expected):
    path = write(tmp_path / "a.arrow", pa.table({"a": pa.array([None, value, value], kind)}))
    first, *others = [sample["a"] for sample in opened(path, as_json=("a",)).samples()]
    assert first is None
    assert [json.loads(text) for text in others] == [expected, expected]


def test_a_map_with_a_key_twice_is_an_error(tmp_path):
    doubled = pa.array([[("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int64()))
    path = write(tmp_path / "a.arrow", pa.table({"a": doubled}))
    with pytest.raises(FormatError, match="a map has a key twice"):
        list(opened(path, as_json=("a",)).samples())


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.none()
        | st.fixed_dictionaries(
            {
                "a": st.none() | st.integers(-(2**63), 2**63 - 1),
                "b": st.none() | st.lists(st.none() | st.text(st.characters(codec="utf-8"))),
                "c": st.none() | st.lists(st.none() | st.lists(st.none() | st.booleans())),
            }
        ),
        min_size=1,
        max_size=9,
    ),
    st.integers(0, 4),
)
def test_json_says_what_the_column_holds_wherever_a_batch_begins(rows, start):
    from trainfeed.conversion.arrow_json import json_texts

    kind = pa.struct(
        [("a", pa.int64()), ("b", pa.list_(pa.string())), ("c", pa.list_(pa.list_(pa.bool_())))]
    )
    column = pa.array(rows, kind)[start:]
    found = [None if text is None else json.loads(text) for text in json_texts(column)]
    assert found == rows[start:]
