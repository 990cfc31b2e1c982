"""Samples compared by position: every random pair of versions against two dictionaries."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.look.difference.made_versions import Made, made_version
from trainfeed.errors import ChecksumError, FormatError, NotFoundError
from trainfeed.look.difference import RecordComparison
from trainfeed.look.difference import samples as _samples_reordered
from trainfeed.look.difference.samples import SampleRows, merged
from trainfeed.samples import Schema, TypedCodec
from trainfeed.versions.layout import POSITIONS

FIXED = Schema.from_json(
    [
        {"name": "value", "dtype": "float32", "shape": []},
        {"name": "label", "dtype": "int64", "shape": [2]},
        {"name": "note", "dtype": "int8", "shape": [], "optional": True},
    ]
)
VARIABLE = Schema.from_json(
    [
        {"name": "value", "dtype": "float32", "shape": []},
        {"name": "label", "dtype": "int32", "shape": [None]},
        {"name": "note", "dtype": "str", "shape": [], "optional": True},
    ]
)
SOURCES = ["kafka:clicks/0", "kafka:clicks/1", "logs:a/b.txt"]
SPLITS = ["eval", "late", "train"]

positions = st.tuples(st.sampled_from(SOURCES), st.integers(0, 8), st.integers(0, 2))
values = st.sampled_from([0.0, -0.0, 1.5, float("nan")])
samples = st.tuples(
    st.sampled_from(SPLITS), values, st.integers(0, 2), st.one_of(st.none(), st.integers(0, 2))
)
# Most positions are on both sides; there, a sample of the second side is often the first one's.
sides = st.dictionaries(
    positions,
    st.tuples(st.one_of(st.none(), samples), st.one_of(st.just("same"), st.none(), samples)),
)


def encoded(schema, sample):
    split, value, label, note = sample
    is_fixed = schema is FIXED
    fields = {"value": value, "label": [label, label] if is_fixed else [label] * label}
    fields["note"] = note if is_fixed or note is None else "é" * note
    return split, TypedCodec(schema).encode(fields)


def made(root, generation, entries, schema, **options):
    rows = [Made(*place, *encoded(schema, sample)) for place, sample in entries.items()]
    return made_version(root, generation, rows, schema, **options)


def expected(first, second, schema):
    """What a dictionary of each version says: kind → positions, and field → positions."""
    kinds = {"added": second.keys() - first.keys(), "removed": first.keys() - second.keys()}
    kinds |= {"changed": set(), "moved": set(), "equal": set()}
    codec = TypedCodec(schema)
    fields = {name: set() for name in schema.names}
    for place in first.keys() & second.keys():
        (split, record), (other_split, other) = (
            encoded(schema, side[place]) for side in (first, second)
        )
        is_same_split = split == other_split
        kind = "changed" if record != other else "equal" if is_same_split else "moved"
        kinds[kind].add(place)
        for name, value in codec.decode(record).items():
            old, new = (
                None if each is None else getattr(each, "tobytes", lambda each=each: each)()
                for each in (value, codec.decode(other)[name])
            )
            if old != new:
                fields[name].add(place)
    return kinds, fields


def compare(first, second, seeds):
    comparison = RecordComparison(first, second, seeds)
    found = {kind: set() for kind in ("added", "removed", "changed", "moved")}
    fields = {name: set() for name in first.schema.names}
    for change in comparison.changes(None):
        place = (change.source, change.offset, change.ordinal)
        assert place not in found[change.kind]
        found[change.kind].add(place)
        for name in change.fields:
            fields[name].add(place)
    return comparison.counts, found, fields


def sides_of(drawn):
    first = {place: ours for place, (ours, _) in drawn.items() if ours is not None}
    second = {
        place: ours if theirs == "same" else theirs
        for place, (ours, theirs) in drawn.items()
        if (ours if theirs == "same" else theirs) is not None
    }
    return first, second


@settings(max_examples=40, deadline=None)
@given(
    drawn=sides,
    schema=st.sampled_from([FIXED, VARIABLE]),
    shards=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    seeds=st.sampled_from([(7, 7), (7, 8), (None, 7)]),
    chunk_bytes=st.sampled_from([64, 4096]),
)
def test_every_sample_has_the_kind_that_two_dictionaries_say(
    drawn, schema, shards, seeds, chunk_bytes
):
    first, second = sides_of(drawn)
    with tempfile.TemporaryDirectory() as root:
        one, other = (
            made(Path(root), number, side, schema, seed=seed or 3, shards=count)
            for number, side, seed, count in zip(
                (1, 2), (first, second), seeds, shards, strict=True
            )
        )
        counts, found, fields = compare(one, other, seeds)
    kinds, differing = expected(first, second, schema)
    assert {**found, "equal": kinds["equal"]} == kinds
    assert fields == differing
    assert counts.equal == len(kinds["equal"])
    assert {name: counts.kinds[name] for name in found} == {n: len(p) for n, p in found.items()}
    assert {name: counts.fields[name] for name in fields} == {n: len(p) for n, p in fields.items()}


def block(keys, offsets):
    size = len(keys)
    return SampleRows(
        np.array(keys, np.uint64),
        np.zeros(size, np.uint64),
        np.array(offsets),
        np.zeros(size, np.int32),
        np.zeros(size, np.int16),
        np.array([b""] * size, object),
    )


def test_samples_of_equal_keys_are_in_one_range_also_across_blocks():
    first = [iter([block([1, 5], [0, 1]), block([5, 9], [2, 3])])]
    second = [iter([block([5], [2])]), iter([block([5, 5, 7], [0, 1, 4])])]
    found = {}
    for number, sides in enumerate(merged(first, second)):
        for side in sides:
            for key in side.keys.tolist():
                found.setdefault(key, set()).add(number)
    assert {key: len(ranges) for key, ranges in found.items()} == {1: 1, 5: 1, 7: 1, 9: 1}


@pytest.fixture
def many():
    """A thousand samples of three sources in two splits."""
    return {
        (source, offset, 0): ("train" if offset % 5 else "eval", 1.5, offset % 3, None)
        for source in SOURCES
        for offset in range(334)
    }


def test_memory_holds_chunks_and_not_versions(tmp_path, many, monkeypatch):
    one, other = (made(tmp_path, number, many, FIXED) for number in (1, 2))
    most = 0
    comparison = RecordComparison(one, other, (7, 7))
    plain = RecordComparison._compared

    def compared(self, first, second, limit):
        nonlocal most
        most = max(most, len(first), len(second))
        return plain(self, first, second, limit)

    monkeypatch.setattr(RecordComparison, "_compared", compared)
    assert list(comparison.changes(None)) == []
    chunk = max(each.info.num_records for each in one.chunks("train"))
    assert comparison.counts.equal == len(many)
    # A range of keys takes at most a chunk of each split, and what was left of the one before.
    assert most <= 2 * 2 * chunk < len(many) / 10


@pytest.mark.parametrize("most_files", [256, 3])
def test_versions_of_other_seeds_are_sorted_through_files_of_bounded_size(
    tmp_path, many, monkeypatch, most_files
):
    monkeypatch.setattr(_samples_reordered, "_FILE_BYTES", 4096)
    monkeypatch.setattr(_samples_reordered, "_MOST_FILES", most_files)
    one, other = (
        made(tmp_path, number, many, FIXED, seed=seed) for number, seed in ((1, 7), (2, 8))
    )
    sizes = []
    plain = _samples_reordered._sorted
    monkeypatch.setattr(
        _samples_reordered, "_sorted", lambda file: sizes.append(file.tell()) or plain(file)
    )
    counts, _, _ = compare(one, other, (7, 8))
    assert (counts.equal, counts.has_changes) == (len(many), False)
    assert len(sizes) > 4
    # A file also holds the descriptions of its columns.
    assert max(sizes) < 4 * 4096


def test_fields_of_other_types_are_compared_by_their_values(tmp_path, many):
    wider = [dict(field) for field in FIXED.to_json()]
    wider[1]["dtype"], wider[0]["dtype"] = "int32", "float64"
    wider[2] = {"name": "new", "dtype": "int8", "shape": []}
    other = Schema.from_json(wider)
    codec = TypedCodec(other)
    rows = [
        Made(
            *place,
            split,
            codec.encode({"value": value, "label": [label, label + (place[1] == 9)], "new": 1}),
        )
        for place, (split, value, label, _) in many.items()
    ]
    one, two = made(tmp_path, 1, many, FIXED), made_version(tmp_path, 2, rows, other)
    counts, found, _ = compare(one, two, (7, 7))
    assert found["changed"] == {(source, 9, 0) for source in SOURCES}
    assert dict(counts.fields) == {"label": 3, "value": 0}
    assert counts.equal == len(many) - 3


def test_a_position_twice_is_damage_that_names_the_file(tmp_path, many):
    rows = [Made(*place, *encoded(FIXED, sample)) for place, sample in many.items()]
    one = made_version(tmp_path, 1, rows, FIXED)
    other = made_version(tmp_path, 2, [*rows, rows[0]], FIXED)
    with pytest.raises(FormatError, match=r"position once, got one twice.*g0002/POSITIONS\.arrow"):
        compare(one, other, (7, 7))


def test_samples_in_another_order_than_that_of_their_seed_are_damage(tmp_path, many):
    one, other = (made(tmp_path, number, many, FIXED, seed=number) for number in (1, 2))
    with pytest.raises(FormatError, match="in the order of their keys"):
        compare(one, other, (1, 1))


def test_damaged_files_are_named(tmp_path, many):
    one, other = (made(tmp_path, number, many, FIXED) for number in (1, 2))
    shard = other.path / other.manifest.splits["train"].shards[1].name
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    with pytest.raises(FormatError, match=f"{shard.name}"):
        compare(one, other, (7, 7))
    (other.path / POSITIONS).write_bytes((other.path / POSITIONS).read_bytes()[:-1] + b"x")
    with pytest.raises(ChecksumError, match=POSITIONS):
        compare(one, other, (7, 7))
    (other.path / POSITIONS).unlink()
    with pytest.raises(NotFoundError, match=POSITIONS):
        compare(one, other, (7, 7))


def test_few_are_told_and_all_are_counted(tmp_path, many):
    one, other = made(tmp_path, 1, many, FIXED), made(tmp_path, 2, {}, FIXED)
    comparison = RecordComparison(one, other, (7, 7))
    assert len(list(comparison.changes(3))) == 3
    assert comparison.counts.kinds["removed"] == len(many)
