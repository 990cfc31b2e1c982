"""Tars against the package webdataset: its files are read here, and ours by it."""

import io

import numpy as np
import webdataset

from trainfeed.conversion import (
    SinkOptions,
    SourceOptions,
    convert,
    open_sample_file,
    transcode,
)
from trainfeed.samples import Field, Schema

SCHEMA = Schema(
    (
        Field("key", "str"),
        Field("jpg", "bytes"),
        Field("cls", "int64"),
        Field("txt", "str", (), optional=True),
        Field("x", "float32", (2, 2)),
    )
)


def samples():
    for n in range(50):
        yield {
            "key": f"part{n % 3}/{n:05d}",
            "jpg": bytes([n]) * n,
            "cls": n - 25,
            "txt": f"é{n}" if n % 2 else None,
            "x": np.full((2, 2), n / 4, "f4"),
        }


def theirs(path):
    """What webdataset gives of a tar, without its own notes."""
    found = webdataset.WebDataset(str(path), shardshuffle=False, empty_check=False)
    return [
        {k: v for k, v in each.items() if not k.startswith("__") or k == "__key__"}
        for each in found
    ]


def test_webdataset_reads_what_is_written_here(tmp_path):
    convert(tmp_path / "set", samples, 1, "p", schema=SCHEMA)
    shard = open_sample_file(tmp_path / "set/p-00000-of-00000", SourceOptions())
    transcode(shard, tmp_path / "a.tar", SinkOptions())
    ours = {each["key"]: each for each in shard.samples()}
    found = theirs(tmp_path / "a.tar")
    assert len(found) == 50
    for each in found:
        mine = ours[each["__key__"]]
        assert each["jpg"] == mine["jpg"]
        assert int(each["cls"]) == mine["cls"]
        assert each.get("txt") == (None if mine["txt"] is None else mine["txt"].encode())
        assert np.array_equal(np.load(io.BytesIO(each["x.npy"])), mine["x"])


def test_what_webdataset_writes_is_read_here(tmp_path):
    with webdataset.TarWriter(str(tmp_path / "a.tar")) as writer:
        for n in range(50):
            sample = {"__key__": f"d/{n:05d}", "jpg": bytes([n]), "cls": n, "json": {"n": n}}
            writer.write(sample | ({"txt": f"é{n}"} if n % 2 else {}))
    found = list(open_sample_file(tmp_path / "a.tar", SourceOptions()).samples())
    assert [each["key"] for each in found] == [f"d/{n:05d}" for n in range(50)]
    assert [each["cls"] for each in found] == list(range(50))
    assert found[7] == {"key": "d/00007", "jpg": b"\x07", "cls": 7, "json": '{"n": 7}', "txt": "é7"}


def test_both_group_members_alike(tmp_path):
    with webdataset.TarWriter(str(tmp_path / "a.tar")) as writer:
        for key in ("a", "b/c", "d.e", "f/g.h"):
            writer.write({"__key__": key, "seg.png": b"1", "txt": "2"})
    ours = open_sample_file(tmp_path / "a.tar", SourceOptions()).samples()
    mine = [{"__key__": each.pop("key")} | each for each in ours]
    as_bytes = [
        {k: v if isinstance(v, bytes) or k == "__key__" else v.encode() for k, v in m.items()}
        for m in mine
    ]
    assert as_bytes == theirs(tmp_path / "a.tar")
