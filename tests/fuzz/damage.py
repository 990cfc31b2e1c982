"""Damages small files of every format in every way there is: ``python tests/fuzz/damage.py``.

Prints a row per format and kind of damage: how many damaged files were read; how many of them gave
an error with its place; how many gave the data of the whole file; and how many were not damaged,
because a file is valid wherever one of its parts ends. Any other result ends the run.
``tests/unit/damage`` does the same with some of the bits.
"""

from __future__ import annotations

import json
import struct
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import cramjam
import pyarrow as pa

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("include", ".")]

from tests.support.manifests import accounted
from trainfeed.conversion import ShardManifest, convert
from trainfeed.errors import TrainFeedError
from trainfeed.files.stores import Location
from trainfeed.recordio import (
    Codec,
    FluidScanner,
    RecordScanner,
    RecordWriter,
    split_records,
)
from trainfeed.samples import Field, Schema, TypedCodec
from trainfeed.sources import LANDING_SCHEMA, LandingFile, LandingWriter
from trainfeed.tfrecord import TFRecordReader, TFRecordWriter
from trainfeed.versions import Version
from trainfeed.versions.chunks import decoder_of
from trainfeed.versions.examples import ExampleRunWriter
from trainfeed.versions.version import CHUNKS, CHUNKS_SCHEMA

__all__ = ["DAMAGES", "FORMATS", "Format", "Tally", "damage_all"]

RECORDS = [b"hello", b"", b"x" * 30, b"y" * 30, bytes(40)]
SCHEMA = Schema((Field("label", "int64"), Field("note", "str")))


@dataclass(frozen=True)
class Format:
    """Something that is stored in one file, or in several.

    Attributes:
        write: Puts it below a folder and returns the file to damage.
        read: Returns what such a file says, or all files together.
        has_parts: A file is parts of its own kind, one behind another, so that it is whole wherever
            one of them ends.
    """

    write: Callable[[Path], Path]
    read: Callable[[Path], Any]
    has_parts: bool = False


@dataclass
class Tally:
    """What came of damaged files.

    Attributes:
        num_tried: How many there were.
        num_told: How many of them were an error with its place.
        num_harmless: How many gave what the whole file gives.
        num_parts: How many were no damage, but a file of fewer or more parts.
    """

    num_tried: int = 0
    num_told: int = 0
    num_harmless: int = 0
    num_parts: int = 0


def damage_all(
    kind: Format, damaged: Callable[[bytes], Iterator[bytes]], folder: Path, *, step: int = 1
) -> Tally:
    """Damage a file in every way that ``damaged`` yields, or in every ``step``-th one.

    Raises:
        AssertionError: A damaged file gave something else than the whole one, or an error that is
            none of ours, or says no place.
    """
    path = kind.write(folder)
    whole, expected = path.read_bytes(), kind.read(path)
    tally = Tally()
    for number, data in enumerate(damaged(whole)):
        if number % step or data == whole:
            continue
        tally.num_tried += 1
        path.write_bytes(data)
        try:
            found = kind.read(path)
        except TrainFeedError as error:
            if str(folder) not in str(error):
                raise AssertionError(f"no place in {error!r}") from error
            tally.num_told += 1
        else:
            if found == expected:
                tally.num_harmless += 1
            elif kind.has_parts and (whole * 2).startswith(data):
                assert found == (expected * 2)[: len(found)], f"wrong data from file {number}"
                tally.num_parts += 1
            else:
                raise AssertionError(f"wrong data from damaged file {number}")
    path.write_bytes(whole)
    return tally


def flipped_bits(data: bytes) -> Iterator[bytes]:
    """Every bit flipped, one at a time."""
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        yield bytes(flipped)


def shorter(data: bytes) -> Iterator[bytes]:
    """Every length but the whole one."""
    for size in range(len(data)):
        yield data[:size]


def zeroed(data: bytes) -> Iterator[bytes]:
    """Zeros in place of 1, 16 and 64 bytes, everywhere."""
    for width in (1, 16, 64):
        for start in range(len(data)):
            yield data[:start] + bytes(len(data[start : start + width])) + data[start + width :]


def grown(data: bytes) -> Iterator[bytes]:
    """Zeros behind the end, and the file's own start there."""
    for size in (*range(1, 33), 512, 4096):
        yield data + bytes(size)
        yield data + data[: min(size, len(data) - 1)]


DAMAGES = {
    "every bit flipped": flipped_bits,
    "every length": shorter,
    "zeros": zeroed,
    "more behind it": grown,
}


def _recordio(codec: Codec) -> Format:
    def write(folder: Path) -> Path:
        with RecordWriter(folder / "a", codec=codec, max_chunk_bytes=40, quantum_records=1) as file:
            for record in RECORDS:
                file.write(record)
        return folder / "a"

    return Format(write, lambda path: list(RecordScanner([path])), has_parts=True)


def _fluid(codec: int) -> Format:
    def write(folder: Path) -> Path:
        data = b""
        for records in (RECORDS[:2], RECORDS[2:]):
            payload = b"".join(struct.pack("<I", len(record)) + record for record in records)
            stored = bytes(cramjam.snappy.compress(payload)) if codec else payload
            words = (0x01020304, len(records), zlib.crc32(stored), codec, len(stored))
            data += struct.pack("<5I", *words) + stored
        (folder / "a").write_bytes(data)
        return folder / "a"

    return Format(write, lambda path: list(FluidScanner(path)), has_parts=True)


def _tfrecord(compression: str) -> Format:
    def write(folder: Path) -> Path:
        with TFRecordWriter(folder / "a", compression) as file:
            for record in RECORDS:
                file.write(record)
        return folder / "a"

    def read(path: Path) -> list[bytes]:
        return list(TFRecordReader([path], compression=compression))

    return Format(write, read, has_parts=True)


def _write_landing(folder: Path) -> Path:
    rows = [
        {
            "offset": i,
            "timestamp": i,
            "timestamp_type": 1,
            "key": b"k",
            "value": value,
            "headers": [],
        }
        for i, value in enumerate(RECORDS)
    ]
    with (folder / "a").open("wb") as file:
        writer = LandingWriter(file)
        writer.write(pa.RecordBatch.from_pylist(rows, schema=LANDING_SCHEMA))
        writer.close({})
    return folder / "a"


def _read_landing(path: Path) -> list[Any]:
    with LandingFile.open(Location.parse(str(path))) as landing:
        # Headers and kinds of timestamps are not covered by the digest.
        columns = ["offset", "timestamp", "key", "value"]
        return [batch.select(columns).to_pylist() for batch in landing.iter_batches(verifies=True)]


def _version(name: str, *, tfrecord: bool = False) -> Format:
    """A version with one shard, of which the file ``name`` is damaged."""

    def write(folder: Path) -> Path:
        samples = [{"label": i, "note": "n" * i} for i in range(8)]
        records = [TypedCodec(SCHEMA).encode(sample) for sample in samples]
        with (folder / "train-00000-of-00000").open("xb") as file:
            chunks = _write_shard(file, records, tfrecord=tfrecord)
        _write_index(folder, chunks)
        _write_manifest(folder)
        return folder / name

    return Format(write, lambda path: _read_version(path.parent))


def _write_shard(file: Any, records: list[bytes], *, tfrecord: bool) -> list[Any]:
    writer: Any = (
        ExampleRunWriter(file, SCHEMA, max_chunk_bytes=40)
        if tfrecord
        else RecordWriter(file, max_chunk_bytes=40, quantum_records=1)
    )
    for record in records:
        writer.write(record)
    writer.close()
    return list(writer.chunks)


def _write_index(folder: Path, chunks: list[Any]) -> None:
    rows, ordinal = [], 0
    for chunk in chunks:
        names = ("offset_bytes", "stored_bytes", "raw_bytes", "num_records", "crc32", "codec")
        row = {name: int(getattr(chunk, name)) for name in names}
        rows.append({"split": "train", "shard": 0, "first_ordinal": ordinal, **row})
        ordinal += chunk.num_records
    table = pa.Table.from_pylist(rows, schema=CHUNKS_SCHEMA)
    with pa.ipc.new_file(folder / CHUNKS, CHUNKS_SCHEMA) as file:
        file.write_table(table)


def _write_manifest(folder: Path) -> None:
    digest = "0" * 64
    dicts = ("late", "ledger", "quarantine", "code", "inputs", "filtered", "lookups", "libraries")
    files = [
        {"name": path.name, "bytes": path.stat().st_size, "sha256": _sha256(path)}
        for path in sorted(folder.iterdir())
    ]
    shards = [
        {**file, "samples": 8, "records_sha256": digest} for file in files if file["name"] != CHUNKS
    ]
    manifest = {
        **{key: {} for key in dicts},
        **{key: [] for key in ("gaps", "gates", "waivers")},
        "format": 1,
        "dataset": "a",
        "interval": {"start": "2013-01-01T00:00:00Z", "end": "2013-01-02T00:00:00Z"},
        "generation": 1,
        "supersedes": None,
        "fingerprint": digest,
        "content_digest": digest,
        "empty": False,
        "schema": SCHEMA.to_json(),
        "splits": {"train": {"millionths": 1_000_000, "samples": 8, "shards": shards}},
        "files": [file for file in files if file["name"] == CHUNKS],
        "sources": ["kafka:a/0"],
        "plan": "0",
        "quarantine": {"records": 0, "reasons": {}},
    }
    (folder / "MANIFEST.json").write_text(json.dumps(accounted(manifest)))
    (folder / "MANIFEST.sha256").write_text(_sha256(folder / "MANIFEST.json") + "\n")


def _sha256(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def _read_version(folder: Path) -> list[Any]:
    """Return the samples of a version, and what else it says of itself."""
    version = Version.open(folder)
    codec, chunks = TypedCodec(version.schema), version.chunks("train")
    decoder = decoder_of(version.schema, {chunk.info.codec for chunk in chunks})
    found: list[Any] = [version.manifest.to_bytes()]
    with version.shard_paths("train")[0].open("rb") as file:
        for chunk in chunks:
            framing = decoder.read(file, chunk.info)
            found += map(codec.decode, split_records(framing, chunk.info.num_records))
    return found


def _write_set(folder: Path) -> Path:
    convert(folder, lambda: iter([(1, "a"), (2, "b"), (3, "c")]), 2, "p", schema=SCHEMA)
    return folder / "p.shards.json"


def _read_set(path: Path) -> bytes:
    return ShardManifest.load(path.parent, "p").dump()


FORMATS = {
    **{f"RecordIO {codec.name.lower()}": _recordio(codec) for codec in Codec},
    "Fluid layout none": _fluid(0),
    "Fluid layout snappy": _fluid(1),
    "TFRecord": _tfrecord(""),
    "TFRecord GZIP": _tfrecord("GZIP"),
    "TFRecord ZLIB": _tfrecord("ZLIB"),
    "landing file": Format(_write_landing, _read_landing),
    "shard of a version": _version("train-00000-of-00000"),
    "shard of Examples": _version("train-00000-of-00000", tfrecord=True),
    "chunk index": _version(CHUNKS),
    "manifest": _version("MANIFEST.json"),
    "digest of the manifest": _version("MANIFEST.sha256"),
    "manifest of converted shards": Format(_write_set, _read_set),
}


def main() -> None:
    """Print the table, or the rows of the formats that the command line names."""
    for name, kind in FORMATS.items():
        if name not in (sys.argv[1:] or FORMATS):
            continue
        for what, damaged in DAMAGES.items():
            with tempfile.TemporaryDirectory() as folder:
                tally = damage_all(kind, damaged, Path(folder))
            counts = " | ".join(f"{count:,}" for count in astuple(tally))
            sys.stdout.write(f"| {name} | {what} | {counts} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
