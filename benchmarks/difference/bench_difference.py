"""Time and memory of ``trainfeed diff`` on large versions, and time of ``lineage`` over many days.

    PYTHONPATH=include:. python benchmarks/difference/bench_difference.py FOLDER
        [--samples 3400000] [--days 1000] [--runs 3]

Versions of one interval have samples of 140 bytes in two splits; in the second and the third, a
label of a thousand differs, and the third has another seed. Each measurement is a process of its
own; peak memory is that of the process. FOLDER is made by the first call.
"""

from __future__ import annotations

import argparse
import hashlib
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.status.bench_status import manifest, prepare
from trainfeed.core.intervals import Schedule, parse_range
from trainfeed.look.difference import RecordComparison
from trainfeed.look.lineage import SourcePosition, Tracer
from trainfeed.recordio import Codec, RecordWriter
from trainfeed.samples import Schema
from trainfeed.versions import DatasetFolder, Manifest, Version, content_digest
from trainfeed.versions.layout import MANIFEST, MANIFEST_DIGEST, POSITIONS
from trainfeed.versions.order import position_hash, source_hash
from trainfeed.versions.version import CHUNKS, CHUNKS_SCHEMA, POSITIONS_SCHEMA

SOURCES = [f"kafka:flights/{partition}" for partition in range(4)]
SCHEMA = Schema.from_json(
    [
        {"name": "indices", "dtype": "int32", "shape": [20]},
        {"name": "values", "dtype": "float32", "shape": [13]},
        {"name": "label", "dtype": "int64", "shape": []},
    ]
)
SEEDS = (7, 7, 8)
SHARD_SAMPLES = 200_000
SPLITS = ("eval", "train")
DAY = "2020-01-01"


def made(place: Path, generation: int, samples: int) -> None:
    """Write one version, unless it is there."""
    folder = DatasetFolder(place / "large", "flights").version(DAY, generation)
    if (folder / MANIFEST_DIGEST).exists():
        return
    folder.mkdir(parents=True)
    rows = ordered(samples, SEEDS[generation - 1])
    splits: dict[str, Any] = {}
    chunks: list[dict[str, Any]] = []
    positions = []
    for split in SPLITS:
        mine = rows[rows["split"] == SPLITS.index(split)]
        shards = -(-len(mine) // SHARD_SAMPLES)
        bounds = np.searchsorted(mine["key"], [(n << 64) // shards for n in range(1, shards)])
        entries = []
        for index, part in enumerate(np.split(mine, bounds)):
            path = folder / f"flights-{split}-{index:05d}-of-{shards - 1:05d}"
            entries.append(shard(path, part, generation, split, index, chunks))
            positions.append((split, part))
        splits[split] = {"millionths": 0, "samples": len(mine), "shards": entries}
    with_ordinals(chunks)
    files = [
        arrow(folder / CHUNKS, CHUNKS_SCHEMA, [pa.Table.from_pylist(chunks, CHUNKS_SCHEMA)]),
        arrow(folder / POSITIONS, POSITIONS_SCHEMA, tables(positions)),
    ]
    publish(folder, generation, splits, sorted(files, key=lambda file: file["name"]))


def ordered(samples: int, seed: int) -> Any:
    """Return key, source, offset and split of every sample, sorted by key."""
    rows = np.empty(samples, [("key", "u8"), ("source", "i4"), ("offset", "i8"), ("split", "i4")])
    rows["source"], rows["offset"] = np.arange(samples) % 4, np.arange(samples) // 4
    rows["split"] = np.arange(samples) % 10 > 0
    hashes = np.array([source_hash(source) for source in SOURCES], np.uint64)[rows["source"]]
    rows["key"] = position_hash(seed, hashes, rows["offset"])
    rows.sort(order="key")
    return rows


def shard(
    path: Path, part: Any, generation: int, split: str, index: int, chunks: list[dict[str, Any]]
) -> dict[str, Any]:
    """Write one shard, and add the rows of its chunks."""
    records = np.zeros(len(part), SCHEMA.record_dtype)
    number = part["offset"] * 4 + part["source"]
    records["indices"] = number[:, None] + np.arange(20)
    records["values"] = np.sin(number)[:, None] * np.arange(13)
    records["label"] = number % 2 + ((generation > 1) & (number % 1000 == 0))
    with path.open("wb") as file:
        writer = RecordWriter(file, codec=Codec.ZSTD, level=1)
        writer.write_array(records)
        writer.close()
    names = ("offset_bytes", "stored_bytes", "raw_bytes", "num_records", "crc32", "codec")
    for chunk in writer.chunks:
        place = {name: int(getattr(chunk, name)) for name in names}
        chunks.append({**place, "split": split, "shard": index})
    digest = hashlib.sha256(records.tobytes()).hexdigest()
    return entry(path) | {"samples": len(part), "records_sha256": digest}


def with_ordinals(chunks: list[dict[str, Any]]) -> None:
    """Number the first samples of chunks within their splits."""
    numbers = dict.fromkeys(SPLITS, 0)
    for chunk in chunks:
        chunk["first_ordinal"] = numbers[chunk["split"]]
        numbers[chunk["split"]] += chunk["num_records"]


def tables(positions: list[tuple[str, Any]]) -> Iterator[pa.Table]:
    """Yield the positions, a table for each shard."""
    for split, part in positions:
        indices = pa.array(np.full(len(part), SPLITS.index(split), np.int32))
        columns = [
            pa.DictionaryArray.from_arrays(indices, pa.array(SPLITS)),
            pa.array(part["source"]),
            pa.array(part["offset"]),
            pa.array(np.zeros(len(part), np.int32)),
        ]
        yield pa.Table.from_arrays(columns, schema=POSITIONS_SCHEMA)


def arrow(path: Path, schema: pa.Schema, parts: Any) -> dict[str, Any]:
    """Write an Arrow file, compressed as builds do it."""
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=1))
    with path.open("wb") as file, pa.ipc.new_file(file, schema, options=options) as writer:
        for table in parts:
            writer.write_table(table)
    return entry(path)


def entry(path: Path) -> dict[str, Any]:
    """Return name, size and digest of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"name": path.name, "bytes": path.stat().st_size, "sha256": digest}


def publish(folder: Path, generation: int, splits: dict[str, Any], files: list[Any]) -> None:
    """Write the manifest."""
    day = next(iter(Schedule("@daily", parse_range(DAY).start).intervals()))
    values = Manifest.from_bytes(manifest("flights", 0, day)).to_json()
    digests = {
        name: [s["records_sha256"] for s in split["shards"]] for name, split in splits.items()
    }
    values |= {"generation": generation, "schema": SCHEMA.to_json(), "splits": splits}
    values |= {"files": files, "sources": SOURCES}
    values["content_digest"] = content_digest(SCHEMA.to_json(), digests)
    data = Manifest.model_validate(values).to_bytes()
    (folder / MANIFEST).write_bytes(data)
    (folder / MANIFEST_DIGEST).write_text(f"{hashlib.sha256(data).hexdigest()}\n")


def compare(place: Path, generation: int) -> str:
    """Compare the first version with another one."""
    folder = DatasetFolder(place / "large", "flights")
    versions = [Version.resolve(folder, DAY, number) for number in (1, generation)]
    comparison = RecordComparison(*versions, (SEEDS[0], SEEDS[generation - 1]))
    told = sum(1 for _ in comparison.changes(5))
    counts = comparison.counts
    return f"{counts.equal} equal, {counts.kinds['changed']} changed, {told} told"


def trace(place: Path, days: int) -> str:
    """Trace a record of the last day but one, down, over all days."""
    position = SourcePosition("kafka:flights/1", 300 * (days - 1) - 1)
    found = Tracer(place / "days" / "root", up=False).of_position(position)
    return f"{', '.join(found.focus)}; {len(found.damaged)} damaged"


def measured(*arguments: str) -> None:
    """Run one measurement in a process of its own, and print its line."""
    subprocess.run([sys.executable, __file__, *arguments], check=True)


def main() -> None:
    """Make what is missing, and measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--samples", type=int, default=3_400_000)
    parser.add_argument("--days", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", choices=("2", "3", "lineage"))
    given = parser.parse_args()
    if given.only is None:
        for generation in (1, 2, 3):
            made(given.folder, generation, given.samples)
        prepare(given.folder / "days", 1, given.days)
        for only in ("2", "3", "lineage") * given.runs:
            measured(str(given.folder), "--days", str(given.days), "--only", only)
        return
    before_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    told = (
        trace(given.folder, given.days)
        if given.only == "lineage"
        else compare(given.folder, int(given.only))
    )
    wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    title = {"2": "equal seeds", "3": "other seeds"}.get(given.only, "lineage")
    print(f"{title}: {wall_s:.1f} s ({cpu_s:.1f} CPU), {before_mb} → {peak_mb} MB; {told}")


if __name__ == "__main__":
    main()
