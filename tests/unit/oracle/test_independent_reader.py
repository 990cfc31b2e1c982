"""The independent reader sees every damage to a version, and knows nothing of trainfeed."""

import ast
import gzip
import json
import struct
import zlib
from pathlib import Path

import cramjam
import numpy as np
import pytest

from tests.oracle.independent_reader import Version, iter_chunks, parse_sample
from tests.unit.oracle.conftest import content_digest, entry_of, value_of, write_manifest

ORACLE = Path(__file__).parents[2] / "oracle"


def manifest_of(folder):
    return json.loads((folder / "MANIFEST.json").read_bytes())


def test_it_imports_nothing_of_the_product_and_is_short():
    for path in ORACLE.glob("*.py"):
        names = [
            name
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in ([node.module] if isinstance(node, ast.ImportFrom) else
                         [alias.name for alias in node.names])
        ]  # fmt: skip
        assert not [name for name in names if name.split(".")[0] in {"trainfeed", "examples"}]
    assert len((ORACLE / "independent_reader.py").read_text().splitlines()) < 150


def test_it_yields_samples_with_their_positions(publish):
    version = Version(publish())
    positions = [sample[:3] for sample in version.samples]
    assert positions == [
        ("kafka:t/1", 2, 0),
        ("kafka:t/0", 0, 0),
        ("kafka:t/1", 0, 0),
        ("kafka:t/0", 3, 0),
    ]
    (row,) = version.quarantine
    assert (row["source"], row["offset"], row["raw"]) == ("kafka:t/0", 1, value_of(0, 1))


def test_every_flipped_byte_of_every_file_is_seen(publish):
    folder = publish()
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "BUILT.json"]
    for path in files:
        data = path.read_bytes()
        for place in range(0, len(data), 1 if len(data) < 200 else 37):
            path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
            with pytest.raises(AssertionError):
                Version(folder)
        path.write_bytes(data)
    Version(folder)


def test_a_file_too_many_and_a_file_too_few_are_named(publish):
    folder = publish()
    (folder / "t-train-00001-of-00001").touch()
    with pytest.raises(AssertionError, match="t-train-00001-of-00001"):
        Version(folder)
    (folder / "t-train-00001-of-00001").unlink()
    (folder / "CHUNKS.arrow").unlink()
    with pytest.raises(AssertionError, match=r"CHUNKS\.arrow"):
        Version(folder)


def test_a_manifest_that_is_not_canonical_is_refused(publish):
    folder = publish()
    manifest = manifest_of(folder)
    text = json.dumps(manifest).encode()
    (folder / "MANIFEST.json").write_bytes(text)
    (folder / "MANIFEST.sha256").write_text(entry_of("", text)["sha256"] + "\n")
    with pytest.raises(AssertionError, match="not canonical"):
        Version(folder)


@pytest.mark.parametrize(
    ("split", "key", "message"),
    [("train", "samples", "records are not"), ("train", "records_sha256", "records are not")],
)
def test_a_shard_entry_must_fit_its_records(publish, split, key, message):
    folder = publish()
    manifest = manifest_of(folder)
    shard = manifest["splits"][split]["shards"][0]
    shard[key] = 2 if key == "samples" else "0" * 64
    manifest["content_digest"] = content_digest(manifest["splits"])
    write_manifest(folder, manifest)
    with pytest.raises(AssertionError, match=message):
        Version(folder)


def test_the_content_digest_must_fit_the_records(publish):
    folder = publish()
    write_manifest(folder, manifest_of(folder) | {"content_digest": "0" * 64})
    with pytest.raises(AssertionError, match="content digest"):
        Version(folder)


@pytest.mark.parametrize("name", ["CHUNKS.arrow", "POSITIONS.arrow"])
def test_index_and_positions_must_be_those_of_the_shards(publish, tmp_path, name):
    from tests.unit.oracle.conftest import Content

    folder = publish()
    other = Content(train=[(0, 0, 1), (1, 0, 0)]).publish(tmp_path / "other")
    data = (other / name).read_bytes()
    (folder / name).write_bytes(data)
    manifest = manifest_of(folder)
    manifest["files"] = [
        entry_of(name, data) if entry["name"] == name else entry for entry in manifest["files"]
    ]
    write_manifest(folder, manifest)
    with pytest.raises(AssertionError, match=r"position|CHUNKS"):
        Version(folder)


@pytest.mark.parametrize(
    ("codec", "pack"),
    [
        (0, bytes),
        (1, cramjam.snappy.compress),
        (2, gzip.compress),
        (16, cramjam.lz4.compress_block),
        (17, cramjam.zstd.compress),
    ],
)
def test_chunks_of_every_codec_are_read(codec, pack):
    framing = b"".join(struct.pack("<I", len(r)) + r for r in (b"Hello", b"", b"World!"))
    payload = bytes(pack(framing))
    header = struct.pack("<5I", 0x01020304, zlib.crc32(payload), codec, len(payload), 3)
    ((fields, records),) = iter_chunks(header + payload, "shard")
    assert records == [b"Hello", b"", b"World!"]
    assert fields == [0, len(payload), len(framing), 3, zlib.crc32(payload), codec]


def test_variable_and_optional_fields_are_parsed():
    schema = [
        {"name": "id", "dtype": "uint16", "shape": []},
        {"name": "score", "dtype": "float32", "shape": [], "optional": True},
        {"name": "points", "dtype": "int8", "shape": [None, 2]},
        {"name": "note", "dtype": "str", "shape": [], "optional": True},
        {"name": "raw", "dtype": "bytes", "shape": []},
    ]
    record = b"\x02" + struct.pack("<Hf", 7, 0.0) + struct.pack("<3I", 2, 3, 1)
    record += b"\x01\x02\x03\xff" + "é!".encode() + b"\x00"
    sample = parse_sample(schema, record)
    assert int(sample["id"]) == 7
    assert sample["score"] is None
    np.testing.assert_array_equal(sample["points"], [[1, 2], [3, -1]])
    assert (sample["note"], sample["raw"]) == ("é!", b"\x00")
    with pytest.raises(AssertionError, match="the schema takes"):
        parse_sample(schema, record + b"?")
