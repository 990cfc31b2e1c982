"""Bytes of TensorFlow, and further encodings that a decoder has to accept."""

from __future__ import annotations

import io

import numpy as np
import pytest

from trainfeed.errors import FormatError
from trainfeed.tfrecord import (
    SequenceExample,
    TFRecordReader,
    TFRecordWriter,
    decode_example,
    decode_sequence_example,
    encode_example,
    encode_sequence_example,
)
from trainfeed.tfrecord.format import masked

T1 = [b"hello", b""]
NO_INTS, NO_FLOATS = np.empty(0, np.int64), np.empty(0, np.float32)

EXAMPLES = {
    "E1": (
        {"e1": NO_INTS, "e2": None, "feature": [b"ab"], "f": [1.0, 2.5], "label": 1, "neg": -1},
        (
            "0a5f0a080a02653112021a000a060a02653212000a110a076665617475726512060a040a0261620a110a0166"
            "120c120a0a080000803f000020400a0e0a056c6162656c12051a030a01010a150a036e6567120e1a0c0a0a"
            "ffffffffffffffffff01"
        ),
    ),
    "E2": (
        {"label": 1, "label_id": 2},
        "0a230a110a086c6162656c5f696412051a030a01020a0e0a056c6162656c12051a030a0101",
    ),
    "E3": (
        {"label": 1, "feature": b"ab"},
        "0a230a110a076665617475726512060a040a0261620a0e0a056c6162656c12051a030a0101",
    ),
    "E4": ({"k": NO_FLOATS}, "0a090a070a016b12021200"),
    "E5": ({"k": [b""]}, "0a0b0a090a016b12040a020a00"),
    "E6": ({"k": 0}, "0a0c0a0a0a016b12051a030a0100"),
    "no features": ({}, ""),
}

TOLERATED = {
    "unpacked integers": ("0a0d0a0b0a016b12061a0408010802", {"k": [1, 2]}),
    "unpacked floats": ("0a130a110a0166120c120a0d0000803f0d00002040", {"f": [1.0, 2.5]}),
    "packed and unpacked": ("0a0f0a0d0a016b12081a060a0201020803", {"k": [1, 2, 3]}),
    "value before key": ("0a0c0a0a12051a030a01010a016b", {"k": [1]}),
    "a key twice": ("0a180a0a0a016b12051a030a01010a0a0a016b12051a030a0102", {"k": [2]}),
    "two Features": (
        "0a0c0a0a0a016b12051a030a01010a0c0a0a0a016c12051a030a0102", {"k": [1], "l": [2]},
    ),
    "two kinds": ("0a110a0f0a016b120a1a030a01010a030a0161", {"k": [b"a"]}),
    "a kind twice": ("0a110a0f0a016b120a1a030a01011a030a0102", {"k": [1, 2]}),
    "a kind, another, the first": (
        "0a160a140a016b120f1a030a01010a030a01611a030a0102",
        {"k": [2]},
    ),
    "an unknown field": ("78010a0c0a0a0a016b12051a030a0101", {"k": [1]}),
    "an unknown field of 8 bytes": ("7900000000000000000a0c0a0a0a016b12051a030a0101", {"k": [1]}),
    "an unknown group": ("7b0a0061000000000000000073747c0a0c0a0a0a016b12051a030a0101", {"k": [1]}),
    "a known field of another type": ("08010a0c0a0a0a016b12051a030a0101", {"k": [1]}),
    "no key": ("0a090a0712051a030a0101", {"": [1]}),
    "no value": ("0a050a030a016b", {"k": None}),
    "an empty Features": ("0a00", {}),
    "a tag of two bytes": ("8a000c0a0a0a016b12051a030a0101", {"k": [1]}),
}  # fmt: skip

REFUSED = {
    "key that is no UTF-8": "0a0c0a0a0a01ff12051a030a0101",
    "key with a surrogate": "0a0e0a0c0a03eda08012051a030a0101",
    "message cut": "0a0c0a0a0a016b1205",
    "floats of 3 bytes": "0a0d0a0b0a016b120612040a02aabb",
    "varint without end": "0a0d0a0b0a016b12061a040a02ffff",
    "varint of 11 bytes": "0a160a140a016b120f1a0d0a0bffffffffffffffffffff01",
    "unpacked varint of 11 bytes": "0a150a130a016b120e1a0c08ffffffffffffffffffff01",
    "field number 0": "0200",
    "wire type 6": "0e00",
    "wire type 7": "0f00",
    "end of no group": "0c",
    "group without end": "0b",
    "group with another's end": "0b14",
    "tag of 6 bytes": "8a808080800000",
    "tag beyond 32 bits": "faffffff7f00",
    "length of 6 bytes": "0a808080808000",
    "length beyond the record": "0affffffff07",
    "fixed value cut": "0d0000",
    "tag without value": "0a",
}


def as_lists(features):
    return {
        key: value.tolist() if isinstance(value, np.ndarray) else value
        for key, value in features.items()
    }


@pytest.mark.parametrize(("data", "value"), [(b"123456789", 0xC78AB0E5), (b"", 0xA282EAD8)])
def test_masked_checksum_is_the_documented_one(data, value):
    from crc32c import crc32c

    assert masked(crc32c(data)) == value


@pytest.mark.parametrize("name", ["t1", "t1_gzip", "t1_zlib"])
def test_golden_file_is_read(golden, name):
    assert list(TFRecordReader(golden / f"{name}.tfrecord")) == T1


@pytest.mark.parametrize(
    ("name", "compression"), [("t1", ""), ("t1_gzip", "GZIP"), ("t1_zlib", "ZLIB")]
)
def test_writer_gives_the_golden_bytes(golden, name, compression):
    file = io.BytesIO()
    with TFRecordWriter(file, compression) as writer:
        for record in T1:
            writer.write(record)
    assert file.getvalue() == (golden / f"{name}.tfrecord").read_bytes()


def test_golden_file_of_an_example_is_read(golden):
    (record,) = TFRecordReader(golden / "t2_example.tfrecord")
    assert record == encode_example({"label": 1, "feature": b"ab"})
    assert as_lists(decode_example(record)) == {"feature": [b"ab"], "label": [1]}


@pytest.mark.parametrize("name", EXAMPLES)
def test_encoder_gives_the_golden_bytes(name):
    features, golden = EXAMPLES[name]
    assert encode_example(features).hex() == golden


@pytest.mark.parametrize("name", EXAMPLES)
def test_golden_bytes_survive_a_round_trip(name):
    golden = bytes.fromhex(EXAMPLES[name][1])
    assert encode_example(decode_example(golden)) == golden


@pytest.mark.parametrize("name", TOLERATED)
def test_decoder_accepts(name):
    data, features = TOLERATED[name]
    assert as_lists(decode_example(bytes.fromhex(data))) == features


@pytest.mark.parametrize("name", REFUSED)
def test_decoder_refuses(name):
    with pytest.raises(FormatError) as caught:
        decode_example(bytes.fromhex(REFUSED[name]))
    assert caught.value.offset_bytes is not None


def test_groups_are_followed_to_a_limit_and_no_further():
    assert decode_example(b"\x0b" * 100 + b"\x0c" * 100) == {}
    for data in (b"\x0b" * 101 + b"\x0c" * 101, b"\x0b" * 100_000):
        with pytest.raises(FormatError, match="at most 100 nested groups"):
            decode_example(data)


def test_sequence_example_has_the_documented_bytes(message):
    def entry(key, value):
        return message(1, message(1, key), message(2, value))

    one, two = message(3, message(1, b"\x01")), message(3, message(1, b"\x02"))
    data = message(1, entry(b"id", message(1, message(1, b"a")))) + message(
        2, entry(b"steps", message(1, one) + message(1) + message(1, two)) + entry(b"s", b"")
    )
    encoded = encode_sequence_example({"id": b"a"}, {"s": [], "steps": [1, None, 2]})
    assert encoded == data
    decoded = decode_sequence_example(data)
    assert decoded.context == {"id": [b"a"]}
    assert decoded.feature_lists == {"s": [], "steps": [np.array([1]), None, np.array([2])]}
    assert encode_sequence_example(decoded.context, decoded.feature_lists) == data
    assert decode_sequence_example(b"") == SequenceExample()
    assert encode_sequence_example({}, {}) == b""


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (1 << 63, ValueError),
        (-(1 << 63) - 1, ValueError),
        (np.array([1 << 63], np.uint64), ValueError),
        (1e39, ValueError),
        ([1, 2.5], TypeError),
        ("text", TypeError),
        ([b"a", "b"], TypeError),
        (True, TypeError),
        (np.array([True]), TypeError),
        (np.array([1.5]), TypeError),
        ({"a": 1}, TypeError),
    ],
    ids=repr,
)
def test_encoder_refuses_what_a_list_cannot_hold(value, error):
    with pytest.raises(error) as caught:
        encode_example({"the field": value})
    assert caught.value.__notes__ == ["in feature 'the field'"]


@pytest.mark.parametrize("key", [b"label", 1, None])
def test_a_key_is_text(key):
    with pytest.raises(TypeError, match="expected a key as str, got "):
        encode_example({key: 1})
