"""Records that differ in lengths: parsed side by side, with the results of one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainfeed.errors import FormatError
from trainfeed.samples import Field, Schema
from trainfeed.tfrecord import ExampleCodec, encode_example, parse_examples
from trainfeed.tfrecord import parse as parse_module

SCHEMA = Schema(
    (
        Field("ids", "int64", (None,)),
        Field("label", "int64"),
        Field("weight", "float32", (2,)),
        Field("scores", "float32", (None, 2), optional=True),
        Field("words", "str"),
        Field("raw", "uint8", (None,)),
        Field("exact", "float64", optional=True),
    )
)
CODEC = ExampleCodec(SCHEMA)


def sample(i, generator):
    return {
        "ids": generator.integers(-5, 1 << generator.integers(1, 62), generator.integers(0, 30)),
        "label": np.asarray(i, np.int64),
        "weight": generator.random(2, np.float32),
        "scores": None if i % 5 == 0 else generator.random((i % 4, 2), np.float32),
        "words": "é" * int(generator.integers(0, 200)),
        "raw": generator.integers(0, 256, generator.integers(0, 300)).astype(np.uint8),
        "exact": None if i % 3 == 0 else np.asarray(i / 7),
    }


@pytest.fixture
def one_by_one(monkeypatch):
    """Count the records that are parsed one by one."""
    counted = []
    parse_row = parse_module.parse_row

    def counting(record, columns):
        counted.append(record)
        return parse_row(record, columns)

    monkeypatch.setattr(parse_module, "parse_row", counting)
    return counted


def require_same(columns, records, codec=CODEC):
    for i, record in enumerate(records):
        for name, value in codec.decode(record).items():
            found = columns[name][i]
            if value is None:
                assert found is None or np.ma.getmaskarray(found).all()
            elif isinstance(value, np.ndarray):
                assert np.asarray(found).dtype == value.dtype
                assert np.array_equal(found, value)
            else:
                assert found == value


def test_records_of_different_length_are_parsed_side_by_side(one_by_one):
    generator = np.random.default_rng(3)
    records = [CODEC.encode(sample(i, generator)) for i in range(300)]
    columns = CODEC.decode_records(records)
    assert not one_by_one
    require_same(columns, records)
    assert columns["words"][7] == CODEC.decode(records[7])["words"]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2**32)), min_size=4, max_size=40))
@settings(
    derandomize=True, deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
def test_any_mixture_of_structures_gives_what_one_by_one_gives(kinds):
    records = []
    for kind, seed in kinds:
        generator = np.random.default_rng(seed)
        features = {"i": generator.integers(0, 300, seed % 5), "b": bytes(seed % 7)}
        if kind == 1:
            features = {"i": features["i"], "extra": [1.5], "b": features["b"]}
        elif kind == 2:
            features = {"b": features["b"], "i": None}
        elif kind == 3:
            features = {"b": features["b"]}
        record = encode_example(features)
        # An unknown field: no structure has it.
        records.append(record + b"\x78\x01" if kind == 4 else record)
    fields = [Field("i", "int64", (None,), optional=True), Field("b", "bytes")]
    require_same(parse_examples(records, fields), records, ExampleCodec(fields))


def test_lists_that_are_not_packed_are_left_to_one_by_one(one_by_one):
    # Values 1 and 2 of key "k", each with a tag of its own, and the same key packed.
    loose = bytes.fromhex("0a0d0a0b0a016b12061a0408010802")
    packed = [encode_example({"k": [1] * n}) for n in range(1, 9)]
    found = parse_examples([*packed, loose], {"k": ("int64", (None,))})["k"]
    assert [row.tolist() for row in found] == [[1] * n for n in range(1, 9)] + [[1, 2]]
    assert one_by_one == [loose]


@pytest.mark.parametrize(
    "bad",
    [
        bytes.fromhex("0a0c0a0a0a016b12051a030a0181"),  # a varint without end
        bytes.fromhex("0a0b0a090a016b12041202 0a01"),  # floats of one byte
        bytes.fromhex("0a0c0a0a0a016b1205"),  # cut
        bytes.fromhex("0a0c0a0a0a016b12061a030a0101"),  # a length that lies
        bytes.fromhex("0affffffff7f"),
        b"\x0a",
    ],
)
@pytest.mark.parametrize("key", ["k", "another"])
def test_bad_record_among_good_ones_is_named(bad, key):
    good = [encode_example({"k": [1] * n, "another": [2]}) for n in range(1, 9)]
    with pytest.raises(FormatError, match="record 5: "):
        parse_examples([*good[:5], bad, *good[5:]], {key: ("int64", (None,))})


def test_every_flipped_bit_of_one_record_gives_what_one_by_one_gives():
    good = [encode_example({"k": [300] * n, "b": b"x" * n}) for n in range(1, 7)]
    fields = [Field("k", "int64", (None,), optional=True), Field("b", "bytes", optional=True)]
    codec = ExampleCodec(fields)
    num_refused = 0
    for bit in range(8 * len(good[2])):
        damaged = bytearray(good[2])
        damaged[bit // 8] ^= 1 << bit % 8
        records = [*good[:3], bytes(damaged), *good[3:]]
        try:
            codec.decode(bytes(damaged))
        except FormatError:
            num_refused += 1
            with pytest.raises(FormatError, match="record 3: "):
                parse_examples(records, fields)
        else:
            require_same(parse_examples(records, fields), records, codec)
    assert num_refused > 20
