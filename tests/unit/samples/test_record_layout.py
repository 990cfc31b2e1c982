"""A record that does not fit its schema is refused with one message in every way of reading."""

import numpy as np
import pytest

from trainfeed.errors import FormatError
from trainfeed.loader import DataLoader, RecordFiles
from trainfeed.recordio import RecordWriter
from trainfeed.samples import (
    Field,
    RecordLayout,
    SampleReader,
    Schema,
    TypedCodec,
    frame_records,
    record_places,
)

FIXED = Schema((Field("b", "bool"), Field("o", "int8", optional=True)))
VARIABLE = Schema(
    (
        Field("s", "str", optional=True),
        Field("o", "int8", optional=True),
        Field("b", "bool"),
        Field("v", "bool", (None,)),
        Field("w", "int16", (None, 2)),
    )
)
HEAD = 3  # bytes of presence, "o" and "b" of VARIABLE


def counts(*numbers):
    return np.array(numbers, "<u4").tobytes()


REFUSED = {
    "a shorter record of fixed size": (FIXED, bytes(2), "has 2 bytes, the schema's have 3"),
    "a boolean of fixed size": (FIXED, b"\0\2\0", "field 'b' holds a byte that is neither 0 nor 1"),
    "a presence bit of a fixed schema": (FIXED, b"\2\0\0", "a presence bit is set beyond"),
    "a record without room for counts": (
        VARIABLE,
        bytes(HEAD),
        "record 1 of the chunk: expected at least 15 bytes, got 3",
    ),
    "a presence bit": (VARIABLE, b"\4\0\0" + counts(0, 0, 0), "a presence bit is set beyond"),
    "a boolean": (VARIABLE, b"\0\0\2" + counts(0, 0, 0), "field 'b' holds a byte"),
    "a boolean of variable size": (
        VARIABLE,
        bytes(HEAD) + counts(0, 3, 0) + b"\1\2\1",
        "field 'v' holds a byte that is neither 0 nor 1",
    ),
    "text of a field that is absent": (
        VARIABLE,
        bytes(HEAD) + counts(2, 0, 0) + "é".encode(),
        "field 's' is absent and holds 2 values",
    ),
    "more values than there are bytes": (
        VARIABLE,
        bytes(HEAD) + counts(0, 0, 2**32 - 1),
        "record 1 of the chunk: field 'w' announces more values than the chunk can hold",
    ),
    "fewer bytes than values": (
        VARIABLE,
        bytes(HEAD) + counts(0, 0, 2) + bytes(5),
        "record 1 of the chunk ends -3 bytes from where its counts say",
    ),
    "more bytes than values": (
        VARIABLE,
        bytes(HEAD) + counts(0, 1, 0) + bytes(3),
        "record 1 of the chunk ends 2 bytes from where its counts say",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_columns_and_loader_refuse_a_record_with_one_message(tmp_path, name):
    schema, record, message = REFUSED[name]
    codec = TypedCodec(schema)
    whole = {"b": True} if schema is FIXED else {"b": True, "v": [True], "w": [[1, 2]]}
    path = tmp_path / "records"
    with RecordWriter(path) as writer:
        writer.write(codec.encode(whole))
        # Both records of a fixed schema have to fit the size that the chunk announces.
        writer.write(record)
        if len(record) == FIXED.record_dtype.itemsize - 1:
            writer.write(bytes(4))
    found = []
    for read in (
        lambda: list(SampleReader(path, schema).iter_batches(4)),
        lambda: [batch["b"] for batch in DataLoader(RecordFiles(path, schema), 4)],
        lambda: [batch["b"] for batch in DataLoader(RecordFiles(path, schema), 4, shuffle=True)],
    ):
        with pytest.raises(FormatError) as caught:
            read()
        error = caught.value
        found.append((error.args[0].removeprefix("chunk 0: "), error.path, error.offset_bytes))
    assert message in found[0][0]
    assert found[0][1:] == (str(path), 0)
    assert found == [found[0]] * 3


def test_a_record_alone_names_the_values_of_an_absent_field_as_a_chunk_does():
    with pytest.raises(FormatError, match="field 's' is absent and holds 2 values"):
        TypedCodec(VARIABLE).decode(bytes(HEAD) + counts(2, 0, 0) + "é".encode())


def test_places_say_where_the_values_of_a_record_are():
    schema = Schema(
        (Field("o", "int16", optional=True), Field("t", "str"), Field("x", "float32", (2, 3)))
    )
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    record = TypedCodec(schema).encode({"o": 7, "t": "yes", "x": values})
    layout = RecordLayout(schema)
    found = {
        place.name: np.ndarray(place.item_shape, place.dtype, record, place.offset_bytes)
        for place in layout.places
    }
    assert [(place.name, place.bit, place.num_bytes) for place in layout.places] == [
        ("o", 0, 2),
        ("x", None, 24),
    ]
    assert found["o"] == 7
    assert (found["x"] == values).all()
    heads, ends = layout.find(frame_records([record, record]), np.array([[4, 38], [42, 76]]))
    assert heads["counts"].tolist() == [[3], [3]]
    assert ends.tolist() == [[35, 38], [73, 76]]


def test_counts_whose_sizes_add_up_to_nothing_in_64_bits_are_refused():
    """Twice 2 ** 31 rows of 4 GiB are 2 ** 64 bytes."""
    large = Field("v", "float64", (None, 1 << 29))
    schema = Schema((large, Field("w", "float64", (None, 1 << 29))))
    record = counts(1 << 31, 1 << 31)
    message = "record 0 of the chunk: field 'v' announces more values than the chunk can hold"
    with pytest.raises(FormatError, match=message):
        TypedCodec(schema).decode_columns(frame_records([record]), 1)
    empty = TypedCodec(schema).decode_columns(frame_records([counts(0, 0)]), 1)
    assert empty["v"][0].shape == (0, 1 << 29)


def test_fields_are_aligned_by_where_records_start_and_how_far_apart_they_are():
    layout = RecordLayout(Schema((Field("a", "int32"), Field("b", "uint8"), Field("c", "int16"))))
    assert layout.unaligned(0, 0) == {"c"}
    assert layout.unaligned(0, 7) == {"a", "c"}
    assert layout.unaligned(3, 4) == {"a"}


def test_a_framing_has_the_length_of_every_record_before_it():
    records = [b"", b"abc", b"d" * 300]
    framing = frame_records(records)
    places = record_places(framing, 3)
    assert [bytes(framing[start:end]) for start, end in places] == records
    assert bytes(framing[:11]) == b"\0\0\0\0\3\0\0\0abc"
    one_size = np.array([b"ab", b"cd"], "V2")
    assert bytes(frame_records(one_size)) == bytes(frame_records([b"ab", b"cd"]))
