"""A version folder and a producer's ledger, made by hand from the specification.

Two partitions of topic ``t``, one interval, one shard per split, one uncompressed chunk per shard.
"""

import hashlib
import json
import sqlite3
import struct
import zlib
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from tests.oracle.accounting import sums

SCHEMA = [
    {"name": "label", "dtype": "int64", "shape": []},
    {"name": "values", "dtype": "float32", "shape": [2]},
]
SOURCES = ["kafka:t/0", "kafka:t/1"]
NOON_MS = 1_357_041_600_000  # 2013-01-01T12:00:00Z
CHUNKS = pa.schema(
    {
        "split": pa.utf8(),
        "shard": pa.int32(),
        "offset_bytes": pa.int64(),
        "stored_bytes": pa.int32(),
        "raw_bytes": pa.int32(),
        "num_records": pa.int32(),
        "crc32": pa.uint32(),
        "codec": pa.int32(),
        "first_ordinal": pa.int64(),
    }
)
POSITIONS = pa.schema(
    {
        "split": pa.dictionary(pa.int32(), pa.utf8()),
        "source": pa.int32(),
        "offset": pa.int64(),
        "ordinal": pa.int32(),
    }
)
QUARANTINE = pa.schema(
    {
        "source": pa.int32(),
        "offset": pa.int64(),
        "reason": pa.utf8(),
        "message": pa.utf8(),
        "raw": pa.binary(),
    }
)


def value_of(source, offset):
    return f"event {offset} of {source}".encode()


@dataclass
class Content:
    """What a version holds: positions are (index of the source, offset)."""

    train: list = field(default_factory=lambda: [(0, 0, 1), (1, 0, 0), (0, 3, 1)])  # … label
    eval: list = field(default_factory=lambda: [(1, 2, 0)])
    quarantined: list = field(default_factory=lambda: [(0, 1)])
    filtered: dict = field(default_factory=lambda: {"cancelled": [(1, 1)], "diverted": [(0, 2)]})
    raw: bytes | None = None

    def publish(self, folder: Path) -> Path:
        """Write the version folder, consistent in itself whatever it holds."""
        (folder / "quarantine").mkdir(parents=True)
        shards = {name: self._shard(folder, name) for name in ("eval", "train")}
        rows = [self._quarantine_row(*position) for position in self.quarantined]
        files = {
            "CHUNKS.arrow": arrow([chunk for _, chunk in shards.values()], CHUNKS),
            "POSITIONS.arrow": arrow(
                [{"split": name, "source": source, "offset": offset, "ordinal": 0}
                 for name in shards for source, offset, _ in getattr(self, name)], POSITIONS),
            "quarantine/records.arrow": arrow(rows, QUARANTINE),
        }  # fmt: skip
        for name, data in files.items():
            (folder / name).write_bytes(data)
        splits = {name: entry for name, (entry, _) in shards.items()}
        manifest = {
            "content_digest": content_digest(splits),
            "files": [entry_of(name, data) for name, data in files.items()],
            "interval": {"start": "2013-01-01T00:00:00Z", "end": "2013-01-02T00:00:00Z"},
            "ledger": {source: self._ledger(i, source) for i, source in enumerate(SOURCES)},
            "quarantine": {"records": len(rows), "reasons": Counter(row["reason"] for row in rows)},
            "schema": SCHEMA,
            "sources": SOURCES,
            "splits": splits,
        }
        write_manifest(folder, manifest)
        (folder / "BUILT.json").write_text("{}")
        return folder

    def _shard(self, folder, split):
        records = [struct.pack("<qff", label, 0.5, 1.5) for *_, label in getattr(self, split)]
        framing = b"".join(struct.pack("<I", len(record)) + record for record in records)
        crc = zlib.crc32(framing)
        data = struct.pack("<5I", 0x01020304, crc, 0, len(framing), len(records)) + framing
        name = f"t-{split}-00000-of-00000"
        (folder / name).write_bytes(data)
        shard = entry_of(name, data) | {
            "samples": len(records),
            "records_sha256": hashlib.sha256(framing).hexdigest(),
        }
        chunk = {"split": split, "shard": 0, "offset_bytes": 0, "stored_bytes": len(framing),
                 "raw_bytes": len(framing), "num_records": len(records), "crc32": crc, "codec": 0,
                 "first_ordinal": 0}  # fmt: skip
        share = {"eval": 100_000, "train": 900_000}[split]
        return {"millionths": share, "samples": len(records), "shards": [shard]}, chunk

    def _quarantine_row(self, source, offset):
        raw = value_of(source, offset) if self.raw is None else self.raw
        return {"source": source, "offset": offset, "reason": "not_json", "message": "", "raw": raw}

    def _ledger(self, index, source):
        valid = [offset for i, offset, _ in (*self.train, *self.eval) if i == index]
        rejected = [offset for i, offset in self.quarantined if i == index]
        filtered = {reason: [offset for i, offset in positions if i == index]
                    for reason, positions in self.filtered.items()}  # fmt: skip
        everything = [*valid, *rejected, *(o for offsets in filtered.values() for o in offsets)]
        samples, s1, s2 = sums(source, [(offset, 0) for offset in valid])
        return {
            "read": leaf(index, source, everything),
            "valid": leaf(index, source, valid) | {"samples": samples, "s1": s1, "s2": s2},
            "quarantined": leaf(index, source, rejected),
            "filtered": {name: leaf(index, source, offsets) for name, offsets in filtered.items()},
        }


def leaf(index, source, offsets):
    records, first, second = sums(source, [(offset, 0) for offset in offsets])
    num_bytes = sum(len(value_of(index, offset)) for offset in offsets)
    return {"records": records, "bytes": num_bytes, "l1": first, "l2": second}


def arrow(rows, schema):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_table(pa.Table.from_pylist(rows, schema=schema))
    return sink.getvalue().to_pybytes()


def entry_of(name, data):
    return {"name": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def content_digest(splits):
    digests = {n: [s["records_sha256"] for s in split["shards"]] for n, split in splits.items()}
    return hashlib.sha256(as_canonical({"schema": SCHEMA, "splits": digests})).hexdigest()


def as_canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def write_manifest(folder, manifest):
    text = as_canonical(manifest)
    (folder / "MANIFEST.json").write_bytes(text)
    (folder / "MANIFEST.sha256").write_text(hashlib.sha256(text).hexdigest() + "\n")


def write_ledger(path, rows):
    """Write a producer's ledger: (partition, offset, planted, fate, label)."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE topic (name, uuid)")
        database.execute("INSERT INTO topic VALUES ('t', 'id')")
        database.execute("CREATE TABLE events (partition, offset, event_id, timestamp_ms, bytes,"
                         " sha256, planted, fate, label)")  # fmt: skip
        for event_id, (partition, offset, planted, fate, label) in enumerate(rows):
            value = value_of(partition, offset)
            digest = hashlib.sha256(value).hexdigest()
            database.execute(
                "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (partition, offset, event_id, NOON_MS, len(value), digest, planted, fate, label),
            )
    return path


@pytest.fixture
def ledger(tmp_path):
    return write_ledger(
        tmp_path / "ledger.sqlite",
        [
            (0, 0, None, "sample", 1),
            (0, 1, "truncated", "quarantined", None),
            (0, 2, None, "filtered:diverted", None),
            (0, 3, None, "sample", 1),
            (1, 0, None, "sample", 0),
            (1, 1, None, "filtered:cancelled", None),
            (1, 2, None, "sample", 0),
        ],
    )


@pytest.fixture
def publish(tmp_path):
    def publish(**content):
        return Content(**content).publish(tmp_path / "g0001")

    return publish
