"""Reads a published version and verifies everything: every digest and count is computed again.

Written from the format's specification alone: nothing of trainfeed is imported. pyarrow reads the
``.arrow`` files, cramjam decompresses; the rest is standard library and numpy.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from math import prod
from pathlib import Path

import cramjam
import numpy as np
import pyarrow as pa

OWN = {"MANIFEST.json", "MANIFEST.sha256", "BUILT.json"}
UNPACK = {
    0: bytes,
    1: cramjam.snappy.decompress,
    2: lambda data: zlib.decompress(data, 31),
    16: cramjam.lz4.decompress_block,
    17: cramjam.zstd.decompress,
}


def require(holds, message):
    if not holds:
        raise AssertionError(message)


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def iter_chunks(data, where):
    """Yield header fields, as CHUNKS.arrow orders them, and the records of each chunk."""
    at = 0
    while at < len(data):
        require(at + 20 <= len(data), f"{where}: torn header at {at}")
        magic, crc, codec, stored, count = struct.unpack_from("<5I", data, at)
        payload = data[at + 20 : at + 20 + stored]
        require(magic == 0x01020304 and len(payload) == stored, f"{where}: no chunk at {at}")
        require(zlib.crc32(payload) == crc, f"{where}: CRC of the chunk at {at}")
        framing = bytes(UNPACK[codec](payload))
        yield [at, stored, len(framing), count, crc, codec], split(framing, count, where)
        at += 20 + stored


def split(framing, count, where):
    records, at = [], 0
    for _ in range(count):
        (length,) = struct.unpack_from("<I", framing, at)
        records.append(framing[at + 4 : at + 4 + length])
        at += 4 + length
    require(at == len(framing), f"{where}: {count} records take {at} of {len(framing)} bytes")
    return records


def parse_sample(schema, record):
    """Return field → array, bytes, str, or None where an optional field is absent."""
    optional = [field["name"] for field in schema if field.get("optional")]
    at = (len(optional) + 7) // 8
    bits = int.from_bytes(record[:at], "little")
    absent = {name for place, name in enumerate(optional) if not bits >> place & 1}
    scalars = {"bytes": bytes, "str": bytes.decode}
    varying = [f for f in schema if f["dtype"] in scalars or None in f["shape"]]
    values = {}
    for field in (f for f in schema if f not in varying):
        dtype, shape = np.dtype(field["dtype"]).newbyteorder("<"), field["shape"]
        values[field["name"]] = np.frombuffer(record, dtype, prod(shape), at).reshape(shape)
        at += prod(shape) * dtype.itemsize
    counts = struct.unpack_from(f"<{len(varying)}I", record, at)
    at += 4 * len(varying)
    for field, count in zip(varying, counts, strict=True):
        dtype = np.dtype("u1" if field["dtype"] in scalars else field["dtype"]).newbyteorder("<")
        rest = field["shape"][1:]
        data = record[at : at + count * prod(rest) * dtype.itemsize]
        array = scalars.get(field["dtype"], lambda b, d=dtype: np.frombuffer(b, d))(data)
        values[field["name"]] = array.reshape(count, *rest) if None in field["shape"] else array
        at += len(data)
    require(at == len(record), f"a sample of {len(record)} bytes, the schema takes {at}")
    return {name: None if name in absent else value for name, value in values.items()}


class Version:
    """A verified version: ``samples`` (source, offset, ordinal, bytes), ``quarantine`` rows."""

    def __init__(self, folder):
        self.folder = Path(folder)
        text = (self.folder / "MANIFEST.json").read_bytes()
        digest = (self.folder / "MANIFEST.sha256").read_text()
        require(digest == hashlib.sha256(text).hexdigest() + "\n", f"{folder}: manifest digest")
        self.manifest = json.loads(text)
        require(canonical(self.manifest) == text, f"{folder}: the manifest is not canonical JSON")
        self.splits = self.manifest["splits"]
        shards = [shard for name in self.splits for shard in self.splits[name]["shards"]]
        listed = {entry["name"]: entry for entry in (*self.manifest["files"], *shards)}
        found = {p.relative_to(self.folder).as_posix() for p in self.folder.rglob("*")
                 if not p.is_dir()}  # fmt: skip
        require(found - OWN == listed.keys(), f"{folder}: {sorted((found - OWN) ^ listed.keys())}")
        self.files = {name: self._read(name, entry) for name, entry in listed.items()}
        self.samples = list(self._samples())
        self.quarantine = [
            row | {"source": self.manifest["sources"][row["source"]]}
            for name in sorted(listed) if name.startswith("quarantine/")
            for row in self._rows(name)
        ]  # fmt: skip

    def _read(self, name, entry):
        data = (self.folder / name).read_bytes()
        same = (len(data), hashlib.sha256(data).hexdigest()) == (entry["bytes"], entry["sha256"])
        require(same, f"{self.folder}: {name} is not the file of the manifest")
        return data

    def _rows(self, name):
        return pa.ipc.open_file(pa.BufferReader(self.files[name])).read_all().to_pylist()

    def _samples(self):
        positions, chunks, digests = iter(self._rows("POSITIONS.arrow")), [], {}
        for name in sorted(self.splits):
            ordinal, digests[name] = 0, []
            for index, shard in enumerate(self.splits[name]["shards"]):
                first, running = ordinal, hashlib.sha256()
                for header, records in iter_chunks(self.files[shard["name"]], shard["name"]):
                    chunks.append([name, index, *header, ordinal])
                    ordinal += len(records)
                    for record in records:
                        running.update(struct.pack("<I", len(record)) + record)
                        row = next(positions, {"split": "none left"})
                        require(row["split"] == name, f"{shard['name']}: position {row}")
                        source = self.manifest["sources"][row["source"]]
                        yield source, row["offset"], row["ordinal"], record
                digests[name].append(running.hexdigest())
                same = [shard["samples"], shard["records_sha256"]] == [
                    ordinal - first, digests[name][-1]]  # fmt: skip
                require(same, f"{shard['name']}: records are not those of the manifest")
            require(self.splits[name]["samples"] == ordinal, f"split {name}: {ordinal} samples")
        require(next(positions, None) is None, f"{self.folder}: more positions than samples")
        index = [list(row.values()) for row in self._rows("CHUNKS.arrow")]
        require(index == chunks, f"{self.folder}: CHUNKS.arrow")
        content = canonical({"schema": self.manifest["schema"], "splits": digests})
        same = hashlib.sha256(content).hexdigest() == self.manifest["content_digest"]
        require(same, f"{self.folder}: content digest")
