"""Damaged datums: none is accepted that the specification refuses, and no neighbour notices.

A strict reader of one value after the other (tests/support/avro.py) says what each datum is.
"""

import random
from collections import Counter

import pytest

from tests.support.avro import Refused, decode
from tests.unit.value_formats.framed import frame, read, record, rows_of, values_of
from trainfeed.value_formats import BAD_DATUM

NULLABLE_LONG = ["null", "long"]
NULLABLE_TEXT = ["null", "string"]
# As most topics have it: fields that may be null, of numbers and texts.
FLAT = record(
    *((f"n{number}", NULLABLE_LONG) for number in range(6)),
    *((f"t{number}", NULLABLE_TEXT) for number in range(4)),
)
FROM = record(("name", "string"), ("at", {"type": "array", "items": "double"}), name="From")
DEEP = record(
    ("id", "long"),
    ("day", "int"),
    ("price", ["double", "null"]),
    ("weight", "float"),
    ("paid", "boolean"),
    ("raw", "bytes"),
    ("kind", {"type": "enum", "name": "Kind", "symbols": ["A", "B", "C"]}),
    ("mark", {"type": "fixed", "name": "Mark", "size": 3}),
    ("parts", {"type": "array", "items": NULLABLE_LONG}),
    ("at", {"type": "array", "items": "long"}),
    ("flags", {"type": "array", "items": "boolean"}),
    ("kinds", {"type": "array", "items": "Kind"}),
    ("marks", {"type": "array", "items": "Mark"}),
    ("tags", {"type": "map", "values": "string"}),
    ("from", ["null", FROM]),
)  # fmt: skip
BATCHES = 1100
SIZE = 40


def flat_row(rng):
    row = {f"n{n}": rng.choice([None, 0, -1, 63, 64, -65, 3000, rng.randrange(-(1 << 63), 1 << 63)])
           for n in range(6)}  # fmt: skip
    texts = [None, "", "UA", "N14228", "é" * 9, "x" * 80]
    return row | {f"t{n}": rng.choice(texts) for n in range(4)}


def deep_row(rng):
    return {
        "id": rng.choice([0, 1, -(1 << 63), (1 << 63) - 1, rng.randrange(1 << 40)]),
        "day": rng.choice([0, -1, (1 << 31) - 1, -(1 << 31)]),
        "price": rng.choice([None, 1.5, -0.25]),
        "weight": rng.choice([0.5, -2.0]),
        "paid": rng.random() < 0.5,
        "raw": rng.randbytes(rng.randrange(6)),
        "kind": rng.choice("ABC"),
        "mark": rng.randbytes(3),
        "parts": [rng.choice([None, 5, -700]) for _ in range(rng.randrange(4))],
        "at": [rng.choice([0, -64, 1 << 40]) for _ in range(rng.randrange(4))],
        "flags": [rng.random() < 0.5 for _ in range(rng.randrange(3))],
        "kinds": [rng.choice("ABC") for _ in range(rng.randrange(3))],
        "marks": [rng.randbytes(3) for _ in range(rng.randrange(3))],
        "tags": {f"k{n}": "v" * n for n in range(rng.randrange(3))},
        "from": rng.choice([None, {"name": "z", "at": [1.0] * rng.randrange(3)}]),
    }


def any_row(datums, rng):
    return rng.choice([row for row, datum in enumerate(datums) if datum])


def flip(datums, rng, bits):
    row = any_row(datums, rng)
    data = bytearray(datums[row])
    for _ in range(bits):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    datums[row] = bytes(data)


def cut(datums, rng):
    row = any_row(datums, rng)
    datums[row] = datums[row][: rng.randrange(len(datums[row]))]


def pad(datums, rng):
    row = rng.randrange(len(datums))
    datums[row] += rng.choice([b"\0", b"\0\0", rng.randbytes(3)])


def cut_and_pad(datums, rng):
    row = any_row(datums, rng)
    lost = rng.randrange(1, 1 + min(4, len(datums[row])))
    datums[row] = datums[row][:-lost] + rng.randbytes(lost)


def move_boundary(datums, rng):
    """Give bytes at the end of a datum to the next one, or the other way round."""
    row = rng.randrange(len(datums) - 1)
    both = datums[row] + datums[row + 1]
    place = max(0, min(len(both), len(datums[row]) + rng.choice([-3, -2, -1, 1, 2, 3])))
    datums[row], datums[row + 1] = both[:place], both[place:]


def merge(datums, rng):
    row = rng.randrange(len(datums) - 1)
    datums[row], datums[row + 1] = datums[row] + datums[row + 1], b""


def swap_halves(datums, rng):
    row = rng.randrange(len(datums) - 1)
    first, second = datums[row], datums[row + 1]
    middle = [rng.randrange(1 + len(each)) for each in (first, second)]
    datums[row] = first[: middle[0]] + second[middle[1] :]
    datums[row + 1] = second[: middle[1]] + first[middle[0] :]


def insert_byte(datums, rng):
    row = rng.randrange(len(datums))
    place = rng.randrange(1 + len(datums[row]))
    datums[row] = datums[row][:place] + rng.randbytes(1) + datums[row][place:]


def remove_byte(datums, rng):
    row = any_row(datums, rng)
    place = rng.randrange(len(datums[row]))
    datums[row] = datums[row][:place] + datums[row][place + 1 :]


DAMAGES = [
    lambda datums, rng: flip(datums, rng, 1),
    lambda datums, rng: flip(datums, rng, 4),
    cut,
    pad,
    cut_and_pad,
    move_boundary,
    merge,
    swap_halves,
    insert_byte,
    remove_byte,
]


def strict(schema, datum):
    try:
        return decode(schema, datum)
    except Refused:
        return None


@pytest.mark.parametrize(("schema", "made"), [(FLAT, flat_row), (DEEP, deep_row)])
def test_damage_moves_no_value_and_what_a_strict_reader_refuses_is_refused(schema, made):
    rng = random.Random(2013)
    rows = [made(rng) for _ in range(SIZE)]
    whole = [value[5:] for value in values_of(schema, rows)]
    seen = Counter()
    for number in range(BATCHES):
        datums = list(whole)
        for _ in range(rng.choice([1, 1, 2, 5])):
            DAMAGES[number % len(DAMAGES)](datums, rng)
        decoded = read(schema, schema, [frame(datum) for datum in datums])
        refused = {each.row for each in decoded.refused}
        assert {each.reason for each in decoded.refused} <= {BAD_DATUM}
        found = rows_of(decoded)
        for row, datum in enumerate(datums):
            expected = strict(schema, datum) if datum != whole[row] else rows[row]
            assert (expected is None) is (row in refused), (number, row, datum)
            # By text: NaN is equal to itself there, and 1 is not 1.0.
            assert repr(found[row]) == repr(expected), (number, row, datum)
            seen["refused"] += expected is None
            seen["damaged"] += datum != whole[row]
    # The damage is real: most of it is refused, and some of it makes another record.
    assert seen["damaged"] > BATCHES
    assert seen["damaged"] / 2 < seen["refused"] < seen["damaged"]


def test_random_bytes_are_read_as_a_strict_reader_reads_them():
    rng = random.Random(7)
    small = record(("a", ["null", "int"]), ("b", {"type": "array", "items": "boolean"}))
    datums = [rng.randbytes(rng.randrange(1, 7)) for _ in range(3000)]
    # Small numbers are lengths, counts and branches: random bytes are most often beyond.
    datums += [bytes(rng.randrange(4) for _ in range(rng.randrange(1, 7))) for _ in range(3000)]
    decoded = read(small, small, [frame(each) for each in datums])
    assert rows_of(decoded) == [strict(small, each) for each in datums]
    assert sum(each is not None for each in decoded.column.to_pylist()) > 50


def test_every_varint_of_eight_to_eleven_bytes_is_read_as_a_strict_reader_reads_it():
    rng = random.Random(3)
    schema = record(("a", "long"))
    datums = []
    for length in range(1, 12):
        for last in (0, 1, 2, 3, 127):
            body = bytes(rng.randrange(128, 256) for _ in range(length - 1))
            datums += [
                body + bytes([last]),
                body[:-1] + b"\x80" * min(1, length - 1) + bytes([last]),
            ]
    decoded = read(schema, schema, [frame(each) for each in datums])
    assert rows_of(decoded) == [strict(schema, each) for each in datums]
