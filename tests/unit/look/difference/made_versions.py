"""Versions written by hand from any samples, as builds would write them."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tests.support.manifests import accounted
from tests.unit.versions.coverage.test_coverage import EMPTY
from trainfeed.recordio import Codec, RecordWriter
from trainfeed.versions import DatasetFolder, Manifest, Version, content_digest
from trainfeed.versions.layout import MANIFEST, MANIFEST_DIGEST, POSITIONS
from trainfeed.versions.order import position_hash, source_hash
from trainfeed.versions.version import CHUNKS, CHUNKS_SCHEMA, POSITIONS_SCHEMA

__all__ = ["Made", "made_version"]

SPAN = {"start": "2024-03-01T00:00:00Z", "end": "2024-03-02T00:00:00Z"}


class Made(NamedTuple):
    """One sample: its position, its split, its record."""

    source: str
    offset: int
    ordinal: int
    split: str
    record: bytes


def made_version(root, generation, samples, schema, *, seed=7, shards=2, chunk_bytes=64, **facts):
    """Write a version, and return it opened; ``facts`` replace values of the manifest."""
    folder = DatasetFolder(root, "clicks").version("2024-03-01", generation)
    folder.mkdir(parents=True)
    sources = sorted({each.source for each in samples}, key=str.encode)
    splits, chunks, positions = {}, [], []
    for split in sorted({each.split for each in samples}):
        mine = _sorted([each for each in samples if each.split == split], seed)
        entries, first = [], 0
        for index in range(shards):
            rows = [each for key, each in mine if (int(key) * shards) >> 64 == index]
            name = f"clicks-{split}-{index:05d}-of-{shards - 1:05d}"
            entry, infos = _shard(folder / name, rows, chunk_bytes)
            entries.append(entry)
            for info in infos:
                chunks.append({**info, "split": split, "shard": index, "first_ordinal": first})
                first += info["num_records"]
            positions.append((split, [sources.index(each.source) for each in rows], rows))
        splits[split] = {"millionths": 0, "samples": len(mine), "shards": entries}
    files = [
        _arrow(folder / CHUNKS, CHUNKS_SCHEMA, [pa.Table.from_pylist(chunks, CHUNKS_SCHEMA)]),
        _arrow(folder / POSITIONS, POSITIONS_SCHEMA, list(_positions(positions, sorted(splits)))),
    ]
    digests = {n: [e["records_sha256"] for e in s["shards"]] for n, s in splits.items()}
    values = {
        **EMPTY,
        "interval": SPAN,
        "generation": generation,
        "schema": schema.to_json(),
        "splits": splits,
        "files": files,
        "sources": sources,
        "content_digest": content_digest(schema.to_json(), digests),
        **facts,
    }
    data = Manifest.model_validate(accounted(values)).to_bytes()
    (folder / MANIFEST).write_bytes(data)
    (folder / MANIFEST_DIGEST).write_text(hashlib.sha256(data).hexdigest() + "\n")
    return Version.open(folder)


def _sorted(samples, seed):
    hashes = np.array([source_hash(each.source) for each in samples], np.uint64)
    offsets, ordinals = (
        np.array([getattr(each, name) for each in samples]) for name in ("offset", "ordinal")
    )
    keys = position_hash(seed, hashes, offsets, ordinals)
    return [(keys[row], samples[row]) for row in np.argsort(keys, kind="stable")]


def _shard(path, rows, chunk_bytes):
    digest = hashlib.sha256()
    with path.open("wb") as file:
        writer = RecordWriter(file, codec=Codec.ZSTD, max_chunk_bytes=chunk_bytes)
        for each in rows:
            digest.update(len(each.record).to_bytes(4, "little") + each.record)
            writer.write(each.record)
        writer.close()
    names = ("offset_bytes", "stored_bytes", "raw_bytes", "num_records", "crc32")
    infos = [
        {**{name: getattr(chunk, name) for name in names}, "codec": int(chunk.codec)}
        for chunk in writer.chunks
    ]
    entry = _file(path) | {"samples": len(rows), "records_sha256": digest.hexdigest()}
    return entry, infos


def _positions(parts, names):
    for split, sources, rows in parts:
        indices = pa.array([names.index(split)] * len(rows), pa.int32())
        columns = [
            pa.DictionaryArray.from_arrays(indices, pa.array(names)),
            pa.array(sources, pa.int32()),
            pa.array([each.offset for each in rows], pa.int64()),
            pa.array([each.ordinal for each in rows], pa.int32()),
        ]
        yield pa.Table.from_arrays(columns, schema=POSITIONS_SCHEMA)


def _arrow(path, schema, tables):
    with path.open("wb") as file, pa.ipc.new_file(file, schema) as writer:
        for table in tables:
            writer.write_table(table)
    return _file(path)


def _file(path):
    data = path.read_bytes()
    return {"name": path.name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
