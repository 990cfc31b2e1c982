"""Arrays and archives of NumPy: their rows in blocks, without a pickle; and harmful files."""

from __future__ import annotations

import io
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.unit.conversion.conftest import FIXED, contents, fixed_samples, peak_below
from trainfeed.conversion import (
    Format,
    SinkOptions,
    SourceOptions,
    convert,
    convert_files,
    format_of,
    open_sample_file,
    transcode,
)
from trainfeed.errors import BadMagicError, ConfigError, FormatError, TruncatedError
from trainfeed.samples import Field, Schema

NUMBERS = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
]


def opened(path, schema=None):
    return open_sample_file(path, SourceOptions(schema=schema))


def blocks_of(path):
    """All columns of a file, from its blocks."""
    blocks = list(opened(path).blocks())
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}


def same(left, right):
    return left.dtype == right.dtype and left.tobytes() == right.tobytes()


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("layout", ["C", "F"])
@pytest.mark.parametrize("dtype", NUMBERS)
def test_every_kind_of_number_comes_in_whatever_its_order(tmp_path, dtype, layout, order):
    values = (np.arange(42).reshape(7, 2, 3) % 2).astype(dtype)
    stored = np.array(values, values.dtype.newbyteorder(order), order=layout)
    np.save(tmp_path / "a.npy", stored)
    source = opened(tmp_path / "a.npy")
    assert source.schema == Schema((Field("value", dtype, (2, 3)),))
    assert source.num_samples() == 7
    assert same(blocks_of(tmp_path / "a.npy")["value"], values)
    assert [sample["value"].tolist() for sample in source.samples()] == values.tolist()


@settings(max_examples=60, deadline=None)
@given(hnp.arrays(np.float32, hnp.array_shapes(max_dims=4, max_side=6)), st.sampled_from("CF"))
def test_any_array_gives_its_rows(tmp_path_factory, values, layout):
    path = tmp_path_factory.getbasetemp() / "any.npy"
    np.save(path, np.array(values, order=layout))
    assert same(blocks_of(path)["value"], values)


def test_a_large_array_that_varies_first_is_read_a_block_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr("trainfeed.conversion.npy._FORTRAN_BLOCK_BYTES", 1000)
    values = np.arange(9000, dtype="i4").reshape(300, 30)
    np.save(tmp_path / "a.npy", np.asfortranarray(values))
    blocks = [block["value"] for block in opened(tmp_path / "a.npy").blocks()]
    assert len(blocks) == 38
    assert same(np.concatenate(blocks), values)


def test_text_is_text_and_bytes_are_bytes(tmp_path):
    np.save(tmp_path / "u.npy", np.array(["é", "", "longer"]))
    np.save(tmp_path / "s.npy", np.array([b"a", b"bc"]))
    assert opened(tmp_path / "u.npy").schema == Schema((Field("value", "str"),))
    assert [s["value"] for s in opened(tmp_path / "u.npy").samples()] == ["é", "", "longer"]
    assert [s["value"] for s in opened(tmp_path / "s.npy").samples()] == [b"a", b"bc"]


def test_a_structure_is_a_field_per_name(tmp_path):
    rows = np.zeros(3, np.dtype([("x", ">f4", (2,)), ("label", "u1"), ("t", "U3")], align=True))
    rows["x"], rows["label"], rows["t"] = [[1, 2], [3, 4], [5, 6]], [7, 8, 9], ["a", "b", "cde"]
    np.save(tmp_path / "a.npy", rows)
    source = opened(tmp_path / "a.npy")
    assert source.schema.names == ("x", "label", "t")
    found = list(source.samples())
    assert [(s["x"].tolist(), int(s["label"]), s["t"]) for s in found] == [
        ([1, 2], 7, "a"),
        ([3, 4], 8, "b"),
        ([5, 6], 9, "cde"),
    ]


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_archive_is_a_field_per_array(tmp_path, save):
    image, label = np.arange(60, dtype="u1").reshape(10, 2, 3), np.arange(10.0)
    save(tmp_path / "a.npz", **{"image/x": image, "label": label})
    source = opened(tmp_path / "a.npz")
    assert source.schema.names == ("image/x", "label")
    columns = blocks_of(tmp_path / "a.npz")
    assert same(columns["image/x"], image)
    assert same(columns["label"], label)
    assert convert_files(tmp_path / "a.npz", tmp_path / "out", 2, "p").num_samples == 10


def test_a_lone_array_takes_the_name_of_the_schema(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((4, 2), "f4"))
    schema = Schema((Field("image", "float32", (2,)),))
    assert opened(tmp_path / "a.npy", schema).schema == schema
    with pytest.raises(FormatError, match="expected the schema"):
        opened(tmp_path / "a.npy", Schema((Field("image", "float32", (3,)),)))


@pytest.fixture
def shard(tmp_path):
    convert(tmp_path / "set", fixed_samples(20), 1, "p", schema=FIXED)
    return tmp_path / "set" / "p-00000-of-00000"


def test_samples_become_an_archive_and_come_back_to_the_byte(shard, tmp_path):
    for name in ("a.npz", "b.npz"):
        assert transcode(opened(shard), tmp_path / name, SinkOptions()) == 20
    assert len(set(contents(tmp_path, "*.npz").values())) == 1
    with np.load(tmp_path / "a.npz") as archive:
        assert archive["image"].shape == (20, 5)
        assert archive["label"].dtype == np.int64
    transcode(opened(tmp_path / "a.npz"), tmp_path / "back.recordio", SinkOptions())
    assert (tmp_path / "back.recordio").read_bytes() == shard.read_bytes()


def test_one_field_becomes_one_array(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"x": [1.5, 2]}\n{"x": [3, 4]}\n')
    schema = Schema((Field("x", "float32", (2,)),))
    transcode(opened(tmp_path / "a.jsonl", schema), tmp_path / "a.npy", SinkOptions())
    assert np.load(tmp_path / "a.npy").tolist() == [[1.5, 2], [3, 4]]


def test_several_fields_are_no_array_and_text_is_none(shard, tmp_path):
    with pytest.raises(ConfigError, match=r"write \.npz"):
        transcode(opened(shard), tmp_path / "a.npy", SinkOptions())
    (tmp_path / "a.csv").write_text("t\nx\n")
    source = opened(tmp_path / "a.csv", Schema((Field("t", "str"),)))
    with pytest.raises(ConfigError, match="fields of fixed size"):
        transcode(source, tmp_path / "a.npz", SinkOptions())
    assert not list(tmp_path.glob("*.np?"))


def test_content_tells_arrays_whatever_their_name(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(1))
    np.savez(tmp_path / "b.npz", x=np.zeros(1))
    assert format_of((tmp_path / "a.npy").rename(tmp_path / "a")) is Format.NPY
    assert format_of((tmp_path / "b.npz").rename(tmp_path / "b")) is Format.NPZ


class Runs:
    """Fails the test when a pickle of it is read."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle was read",))


NO_SAMPLES = {
    "objects": (np.array([Runs(), None]), FormatError, "need no pickle"),
    "objects in a structure": (np.array([(1, {})], "i4,O"), FormatError, "need no pickle"),
    "a single value": (np.array(3), FormatError, "got a single value"),
    "complex numbers": (np.zeros(2, "c8"), ConfigError, "a sample cannot hold complex64"),
    "times": (np.zeros(2, "M8[s]"), ConfigError, "view"),
    "long doubles": (np.zeros(2, "g"), ConfigError, "a sample cannot hold"),
    "bytes of no type": (np.zeros(2, "V3"), ConfigError, "a sample cannot hold"),
    "text in two dimensions": (np.array([["a"]]), ConfigError, "a sample cannot hold"),
    "a structure in two dimensions": (np.zeros((2, 2), "i4,i4"), ConfigError, "one dimension"),
    "a structure in a structure": (
        np.zeros(2, [("a", "i4,i4")]),
        ConfigError,
        "a sample cannot hold",
    ),
    "rows of nothing": (np.zeros((2, 0)), ConfigError, "expected lengths from 1 on"),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("values", "kind", "message"), NO_SAMPLES.values(), ids=NO_SAMPLES)
def test_what_is_no_sample_is_refused_before_it_is_read(tmp_path, values, kind, message, packed):
    path = tmp_path / ("a.npz" if packed else "a.npy")
    if packed:
        np.savez(path, x=values)
    else:
        np.save(path, values, allow_pickle=True)
    with pytest.raises(kind, match=message):
        opened(path)


def test_empty_arrays_are_whole(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((0, 3), "f4"))
    np.savez(tmp_path / "a.npz", x=np.zeros(0), y=np.zeros((0, 2)))
    for name in ("a.npy", "a.npz"):
        assert opened(tmp_path / name).num_samples() == 0
        assert list(opened(tmp_path / name).samples()) == []


def test_a_bool_that_is_none_is_an_error(tmp_path):
    np.save(tmp_path / "a.npy", np.array([True, False]))
    data = bytearray((tmp_path / "a.npy").read_bytes())
    data[-1] = 2
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(FormatError, match="neither 0 nor 1"):
        list(opened(tmp_path / "a.npy").samples())


@pytest.mark.parametrize("point", [0x110000, 0xFFFFFFFF, 0xD800])
def test_text_that_is_no_unicode_is_an_error(tmp_path, point):
    np.save(tmp_path / "a.npy", np.array(["ab", "cd"], ">U2"))
    data = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(data[:-4] + point.to_bytes(4, "big"))
    with pytest.raises(FormatError, match="text that is not valid Unicode"):
        list(opened(tmp_path / "a.npy").samples())


def test_an_array_cut_anywhere_or_followed_by_another_is_an_error(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.arange(5))
    whole = path.read_bytes()
    for num_bytes in range(6, len(whole)):
        path.write_bytes(whole[:num_bytes])
        with pytest.raises((TruncatedError, BadMagicError)):
            opened(path)
    path.write_bytes(whole * 2)
    with pytest.raises(FormatError, match="expected 168 bytes"):
        opened(path)


def header(text, version=1, length=None):
    size = struct.pack("<H" if version == 1 else "<I", len(text) if length is None else length)
    return b"\x93NUMPY" + bytes([version, 0]) + size + text


HOSTILE = {
    "a header of 4 GiB": header(b"", 2, 0xFFFFFFFF),
    "a header of 20 KB": header(b" " * 20_000),
    "another version": header(b"{}", 3),
    "no dict": header(b"[1]"),
    "a call": header(b"__import__('os').system('id')"),
    "deep": header(b"(" * 5000),
    "a shape of no numbers": header(b"{'descr': '<f4', 'fortran_order': False, 'shape': ('a',)}"),
    "a negative length": header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"),
    "values beyond the file": header(
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}"
    ),
    "endless rows of nothing": header(
        b"{'descr': '|U0', 'fortran_order': False, 'shape': (1000000000000000,)}"
    ),
    "a type with a shape": header(
        b"{'descr': ('<f4', (2,)), 'fortran_order': False, 'shape': (1,)}"
    ),
    "a row of 4 GiB": header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1073741824)}"),
    "an unknown type": header(b"{'descr': 'q9', 'fortran_order': False, 'shape': (1,)}"),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_header_is_an_error_and_costs_no_memory(tmp_path, data):
    (tmp_path / "a.npy").write_bytes(data)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", data)
    for name in ("a.npy", "a.npz"):
        with pytest.raises((FormatError, ConfigError)), peak_below(8 << 20):
            opened(tmp_path / name)


def array_bytes(values):
    buffer = io.BytesIO()
    np.save(buffer, values)
    return buffer.getvalue()


def archive_of(path, members, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return path


ARCHIVES = {
    "several lengths": [("a.npy", array_bytes(np.zeros(2))), ("b.npy", array_bytes(np.zeros(3)))],
    "something else": [("a.npy", array_bytes(np.zeros(2))), ("word.xml", b"<a/>")],
    "nothing": [],
    "more than the array": [("a.npy", array_bytes(np.zeros(2)) + b"more")],
    "less than the array": [("a.npy", array_bytes(np.zeros(2))[:-1])],
}


@pytest.mark.parametrize("members", ARCHIVES.values(), ids=ARCHIVES)
def test_an_archive_of_anything_else_than_columns_is_refused(tmp_path, members):
    with pytest.raises(FormatError, match="expected"):
        opened(archive_of(tmp_path / "a.npz", members))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_comes_twice_is_refused(tmp_path):
    members = [("a.npy", array_bytes(np.zeros(2)))] * 2
    with pytest.raises(FormatError, match="a name of its own"):
        opened(archive_of(tmp_path / "a.npz", members))


def test_rows_that_are_no_rows_in_an_archive_say_what_to_do(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.asfortranarray(np.zeros((3, 4))))
    with pytest.raises(ConfigError, match="ascontiguousarray"):
        opened(tmp_path / "a.npz")


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_every_flipped_byte_of_an_archive_is_an_error_or_changes_no_value(tmp_path, compression):
    path = archive_of(
        tmp_path / "a.npz", [("x.npy", array_bytes(np.arange(6, dtype="i2")))], compression
    )
    whole, expected = path.read_bytes(), [{"x": n} for n in range(6)]
    for place in range(0, len(whole), 3):
        data = bytearray(whole)
        data[place] ^= 0x41
        path.write_bytes(data)
        try:
            source = open_sample_file(path, SourceOptions(file_format=Format.NPZ))
            found = [tuple(sample.values()) for sample in source.samples()]
        except (FormatError, ConfigError):
            continue
        assert found == [tuple(sample.values()) for sample in expected]


def test_an_archive_cut_anywhere_is_an_error(tmp_path):
    path = archive_of(tmp_path / "a.npz", [("x.npy", array_bytes(np.arange(6)))])
    whole = path.read_bytes()
    for num_bytes in range(4, len(whole), 5):
        path.write_bytes(whole[:num_bytes])
        with pytest.raises(FormatError):
            opened(path)


def test_a_compressed_bomb_costs_no_memory(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=np.zeros((64, 1 << 20), "u1"))
    assert path.stat().st_size < 1 << 20
    with peak_below(12 << 20):
        assert sum(len(block["x"]) for block in opened(path).blocks()) == 64
