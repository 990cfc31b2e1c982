"""Tars of WebDataset: samples by their names, both ways; and tars that mean harm, or were cut."""

from __future__ import annotations

import gzip
import io
import json
import math
import tarfile

import numpy as np
import pytest

from tests.unit.conversion.conftest import peak_below
from tests.unit.conversion.formats.test_formats import RICH, rich_samples
from trainfeed.conversion import (
    Format,
    SinkOptions,
    SourceOptions,
    convert,
    convert_files,
    format_of,
    open_sample_file,
    read_webdataset,
    transcode,
    webdataset_schema,
    write_webdataset,
)
from trainfeed.errors import ConfigError, FormatError, SampleShapeError, TruncatedError
from trainfeed.samples import Field, Schema

MEMBERS = [
    ("0001.jpg", b"\xff\xd8one"),
    ("0001.cls", b"7\n"),
    ("0001.json", b'{"a": [1, NaN]}'),
    ("0002.JPG", b"two"),
    ("0002.cls", b"-3"),
    ("0002.txt", "é".encode()),
    ("0002.seg.png", b""),
]


def tar_of(path, members, **options):
    """Write a tar; members are names with bytes, or TarInfos."""
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT, **options) as tar:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                tar.addfile(member)
                continue
            info = tarfile.TarInfo(member[0])
            info.size = len(member[1])
            tar.addfile(info, io.BytesIO(member[1]))
    return path


@pytest.fixture
def pairs(tmp_path):
    return tar_of(tmp_path / "a.tar", MEMBERS)


def samples(path, schema=None):
    return list(open_sample_file(path, SourceOptions(schema=schema)).samples())


def test_a_sample_is_what_has_one_key_and_a_field_is_an_extension(pairs):
    assert webdataset_schema(pairs) == Schema(
        (
            Field("key", "str"),
            Field("jpg", "bytes"),
            Field("cls", "int64"),
            Field("json", "str", (), optional=True),
            Field("txt", "str", (), optional=True),
            Field("seg.png", "bytes", (), optional=True),
        )
    )
    assert samples(pairs) == [
        {"key": "0001", "jpg": b"\xff\xd8one", "cls": 7, "json": '{"a": [1, NaN]}'},
        {"key": "0002", "jpg": b"two", "cls": -3, "txt": "é", "seg.png": b""},
    ]


def test_content_tells_a_tar_whatever_its_name(pairs, tmp_path):
    assert format_of(pairs.rename(tmp_path / "no-suffix")) is Format.WEBDATASET


def test_shards_of_a_tar_hold_all_of_its_samples(pairs, tmp_path):
    assert convert_files(pairs, tmp_path / "out", 2, "p").num_samples == 2
    assert open_sample_file(pairs, SourceOptions()).num_samples() == 2


def test_typed_samples_of_every_kind_come_back_to_the_byte(tmp_path):
    convert(tmp_path / "rich", rich_samples, 1, "p", schema=RICH)
    shard = tmp_path / "rich" / "p-00000-of-00000"
    there, back = tmp_path / "there.tar", tmp_path / "back.recordio"
    assert transcode(open_sample_file(shard, SourceOptions()), there, SinkOptions()) == 40
    source = open_sample_file(there, SourceOptions(schema=RICH))
    assert transcode(source, back, SinkOptions()) == 40
    assert back.read_bytes() == shard.read_bytes()


def test_a_tar_that_was_read_is_written_with_the_same_members(pairs, tmp_path):
    transcode(open_sample_file(pairs, SourceOptions()), tmp_path / "b.tar", SinkOptions())
    assert samples(tmp_path / "b.tar") == [
        {name: value for name, value in sample.items() if value is not None}
        for sample in samples(pairs)
    ]
    transcode(open_sample_file(pairs, SourceOptions()), tmp_path / "c.tar", SinkOptions())
    assert (tmp_path / "b.tar").read_bytes() == (tmp_path / "c.tar").read_bytes()


def test_tarfile_reads_what_is_written(tmp_path):
    key = "folder/" + "long" * 40
    with (tmp_path / "a.tar").open("wb") as file:
        schema = Schema((Field("key", "str"), Field("x", "float32", (2,)), Field("n", "float64")))
        written = [{"key": key, "x": np.ones(2, "f4"), "n": np.array(math.nan)}]
        assert write_webdataset(file, written, schema) == 1
    with tarfile.open(tmp_path / "a.tar") as tar:
        assert tar.getnames() == [f"{key}.x.npy", f"{key}.n"]
        assert np.load(io.BytesIO(tar.extractfile(f"{key}.x.npy").read())).tolist() == [1, 1]
        assert tar.extractfile(f"{key}.n").read() == b"NaN"
    assert (tmp_path / "a.tar").stat().st_size % 10240 == 0


def test_samples_without_a_key_are_numbered(tmp_path):
    with (tmp_path / "a.tar").open("wb") as file:
        write_webdataset(file, [{"txt": "a"}, {"txt": "b"}], Schema((Field("txt", "str"),)))
    assert [sample["key"] for sample in samples(tmp_path / "a.tar")] == ["000000000", "000000001"]


def special(name, kind, linkname=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, linkname
    return info


HOSTILE = {
    "parent": ([("../a.txt", b"")], "expected a path that stays below"),
    "parent within": ([("a/../../b.txt", b"")], "expected a path that stays below"),
    "absolute": ([("/etc/a.txt", b"")], "expected a path that stays below"),
    "empty folder": ([("a//b.txt", b"")], "expected a path that stays below"),
    "escape": ([("\x1b[2J.txt", b"")], "expected a name of characters"),
    "symbolic link": ([special("a.txt", tarfile.SYMTYPE, "/etc/passwd")], "got a link"),
    "hard link": ([("a.txt", b""), special("b.txt", tarfile.LNKTYPE, "a.txt")], "got a link"),
    "device": ([special("a.txt", tarfile.CHRTYPE)], "a device"),
    "pipe": ([special("a.txt", tarfile.FIFOTYPE)], "a device"),
    "no extension": ([("README", b"")], "expected a name with key and extension"),
    "no key": ([("._a.txt", b""), (".hidden", b"")], "expected a name with key and extension"),
    "metadata": ([("__meta__.json", b"{}")], "metadata of WebDataset"),
    "doubled member": ([("a.txt", b"1"), ("a.txt", b"2")], "got two"),
    "doubled but for case": ([("a.txt", b"1"), ("a.TXT", b"2")], "got two"),
    "key comes again": (
        [("a.txt", b"1"), ("b.txt", b"2"), ("a.cls", b"3")],
        "keys come again later",
    ),
    "no number": ([("a.cls", b"seven")], r"member 'a.cls'"),
    "no JSON": ([("a.json", b"{")], r"member 'a.json'"),
    "no text": ([("a.txt", b"\xff")], r"member 'a.txt'"),
}


@pytest.mark.parametrize(("members", "message"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_tar_is_one_error_that_names_the_member(tmp_path, members, message):
    path = tar_of(tmp_path / "a.tar", members)
    with pytest.raises(FormatError, match=message) as error:
        samples(path)
    assert error.value.path == str(path)


def test_folders_in_a_tar_are_no_samples(tmp_path):
    members = [special("d", tarfile.DIRTYPE), ("d/a.txt", b"x"), ("./b.txt", b"y")]
    assert [each["key"] for each in samples(tar_of(tmp_path / "a.tar", members))] == ["d/a", "./b"]


@pytest.mark.parametrize("name", ["a.tar.gz", "a.tgz", "whatever"])
def test_a_compressed_tar_says_what_to_do(pairs, tmp_path, name):
    (tmp_path / name).write_bytes(gzip.compress(pairs.read_bytes()))
    with pytest.raises(FormatError, match=r"got one with gzip.*decompress it first"):
        samples(tmp_path / name)


@pytest.mark.parametrize("kind", ["bz2", "xz"])
def test_other_compressions_are_named_too(tmp_path, kind):
    path = tmp_path / f"a.tar.{kind}"
    with tarfile.open(path, f"w:{kind}") as tar:
        tar.addfile(tarfile.TarInfo("a.txt"))
    with pytest.raises(FormatError, match="decompress it first"):
        samples(path)


def test_a_tar_cut_anywhere_is_an_error(pairs):
    whole = pairs.read_bytes()
    end = len(whole.rstrip(b"\0"))
    end += -end % 512
    for num_bytes in (*range(512, end, 101), *range(512, end + 1, 512), end + 511):
        pairs.write_bytes(whole[:num_bytes])
        with pytest.raises(FormatError):
            samples(pairs)
    # One block of zeros is an end.
    pairs.write_bytes(whole[: end + 512])
    assert len(samples(pairs)) == 2


def test_a_cut_behind_a_member_is_told_as_a_cut(pairs):
    pairs.write_bytes(pairs.read_bytes()[:1024])
    with pytest.raises(TruncatedError, match="the tar ends early") as error:
        samples(pairs)
    assert error.value.offset_bytes is not None


def test_a_damaged_header_is_not_the_end(pairs):
    data = bytearray(pairs.read_bytes())
    data[1024 + 10] ^= 1
    pairs.write_bytes(data)
    with pytest.raises(FormatError, match="a header of the tar is damaged"):
        samples(pairs)


def test_two_tars_in_one_file_are_refused(pairs):
    pairs.write_bytes(pairs.read_bytes() * 2)
    with pytest.raises(FormatError, match="expected nothing behind the end"):
        samples(pairs)


def test_sizes_that_a_header_states_cost_no_memory(tmp_path):
    path = tmp_path / "a.tar"
    for info in (tarfile.TarInfo("a.txt"), special("a.txt", tarfile.XHDTYPE)):
        info.size = 40 << 30
        path.write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(2048))
        with path.open("r+b") as file:
            file.truncate(50 << 30)
        with pytest.raises(FormatError), peak_below(8 << 20):
            samples(path)


def test_a_tar_without_samples_needs_a_schema(tmp_path):
    path = tar_of(tmp_path / "a.tar", [])
    with pytest.raises(ConfigError, match="give a schema"):
        samples(path)
    assert samples(path, Schema((Field("txt", "str"),))) == []


def test_an_extension_that_the_schema_lacks_is_an_error(pairs):
    with pytest.raises(FormatError, match="expected one of the extensions"):
        samples(pairs, Schema((Field("jpg", "bytes"),)))


UNWRITABLE = {
    "a slash": Schema((Field("image/x", "bytes"),)),
    "one in lower case": Schema((Field("A", "bytes"), Field("a", "bytes"))),
    "the same member": Schema((Field("x", "int8", (2,)), Field("x.npy", "bytes"))),
    "an optional key": Schema((Field("key", "str", (), optional=True), Field("x", "bytes"))),
    "a key alone": Schema((Field("key", "str"),)),
}


@pytest.mark.parametrize("schema", UNWRITABLE.values(), ids=UNWRITABLE)
def test_fields_that_no_member_can_be_called_are_refused(schema):
    with pytest.raises(ConfigError, match="expected"):
        write_webdataset(io.BytesIO(), [], schema)


@pytest.mark.parametrize("key", ["", "a.b", "/a", "../a", "a//b", "__a__", "a\nb"])
def test_a_key_that_would_not_come_back_is_refused(key):
    schema = Schema((Field("key", "str"), Field("txt", "str")))
    with pytest.raises(SampleShapeError, match="sample 0: expected"):
        write_webdataset(io.BytesIO(), [{"key": key, "txt": ""}], schema)


def test_a_sample_that_would_leave_no_member_or_join_another_is_refused():
    schema = Schema((Field("key", "str"), Field("txt", "str", (), optional=True)))
    with pytest.raises(SampleShapeError, match="all of its fields are absent"):
        write_webdataset(io.BytesIO(), [{"key": "a", "txt": None}], schema)
    with pytest.raises(SampleShapeError, match="keys come again"):
        write_webdataset(io.BytesIO(), [{"key": "a", "txt": "1"}] * 2, schema)


def test_an_array_in_a_tar_needs_no_pickle(tmp_path):
    buffer = io.BytesIO()
    np.save(buffer, np.array([{}]), allow_pickle=True)
    path = tar_of(tmp_path / "a.tar", [("a.x.npy", buffer.getvalue())])
    assert samples(path)[0]["x.npy"] == buffer.getvalue()
    with pytest.raises(FormatError, match="need no pickle"):
        samples(path, Schema((Field("x", "int64", (1,)),)))


def test_reading_holds_one_sample_at_a_time(tmp_path):
    path = tar_of(tmp_path / "a.tar", [(f"{n:05d}.bin", bytes(1 << 20)) for n in range(40)])
    schema = webdataset_schema(path)
    with peak_below(6 << 20):
        assert sum(len(sample["bin"]) for sample in read_webdataset(path, schema)) == 40 << 20


def test_json_members_are_checked_and_kept_as_they_are(tmp_path):
    text = json.dumps({"b": 1, "a": [2]}, indent=3)
    path = tar_of(tmp_path / "a.tar", [("a.json", text.encode())])
    assert samples(path)[0]["json"] == text
