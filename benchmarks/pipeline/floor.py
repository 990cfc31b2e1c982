"""The floor of the build benchmark: a bare loop of trainfeed's own parts, in two processes.

``python -m benchmarks.pipeline.floor FOLDER/x10 batch|record OUT``. Each process reads two
partitions of the topic and verifies them, lands them, calls the function, sorts all samples in
memory, and writes shards: with every digest and sync of a build, but without plan, ledger,
statistics, isolation of the function, check, publication, and bound of memory.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from examples.flights.events import NUM_PARTITIONS
from trainfeed.files.stores import Location
from trainfeed.functions import code_texts, load_function, load_lookups
from trainfeed.functions.lookups import lookup_digests
from trainfeed.pipeline.functions.modes import iter_landed
from trainfeed.pipeline.functions.user_function import source_batch
from trainfeed.recordio import Codec, RecordWriter
from trainfeed.samples import Schema
from trainfeed.samples.arrow import ColumnEncoder
from trainfeed.sources import LandingFile, LandingWriter
from trainfeed.specification import DatasetSpec, load_spec
from trainfeed.versions.order import position_hash, source_hash
from trainfeed.versions.publication import StagedFile

_PROCESSES: Final = 2
# As many as a build writes, with the rows that are framed at once.
_SHARDS: Final = 9
_ROWS: Final = 7281

# The rows of a landed batch that gave a sample, and the records of these samples.
_Samples: TypeAlias = tuple[NDArray[np.int64], NDArray[np.void]]


def main(place: Path, form: str, out: Path) -> None:
    """Run once, and print the number of samples."""
    (out / "staged").mkdir(parents=True)
    with ProcessPoolExecutor(_PROCESSES, get_context("spawn")) as processes:
        shares = [processes.submit(_share, place, form, out, n) for n in range(_PROCESSES)]
        print(sum(share.result() for share in shares))


def _share(place: Path, form: str, out: Path, number: int) -> int:
    """Do the work of one process; return its number of samples."""
    pa.set_cpu_count(1)
    pa.set_memory_pool(pa.system_memory_pool())
    spec = load_spec(place / "datasets" / form / "flights")
    samples_of = (_by_batch if form == "batch" else _by_record)(spec)
    records, keys = [], []
    for partition in range(number, NUM_PARTITIONS, _PROCESSES):
        source = f"kafka:flights/{partition}"
        for path in sorted((place / "recorded" / "flights" / f"p={partition}").glob("*.arrow")):
            for batch in _landed(path, out / f"{partition}-{path.name}"):
                rows, samples = samples_of(batch, source)
                offsets = batch.column("offset").to_numpy()[rows]
                records.append(samples)
                keys.append(position_hash(spec.seed, source_hash(source), offsets))
    order = np.argsort(np.concatenate(keys))
    whole = np.concatenate(records).take(order)
    for shard, part in enumerate(np.array_split(whole, _SHARDS)):
        with StagedFile(out / "staged", f"{number}-{shard}", mode=0o444) as file:
            writer = RecordWriter(cast("BinaryIO", file), codec=Codec.ZSTD, level=1)
            for start in range(0, len(part), _ROWS):
                writer.write_array(part[start : start + _ROWS])
            writer.close()
    return len(whole)


def _landed(path: Path, target: Path) -> list[pa.RecordBatch]:
    """Return the verified batches of a recorded file, landed."""
    with LandingFile.open(Location.parse(str(path))) as recorded:
        batches = list(recorded.iter_batches(verifies=True))
    with target.open("wb") as file:
        writer = LandingWriter(file)
        for batch in batches:
            writer.write(batch)
        writer.close({})
        file.flush()
        os.fsync(file.fileno())
    return batches


def _function(spec: DatasetSpec) -> tuple[Callable[..., Any], Any]:
    texts = code_texts(spec)
    return load_function(spec, spec.preprocess.function, texts), load_lookups(
        spec, lookup_digests(spec)
    )


def _by_batch(spec: DatasetSpec) -> Callable[[pa.RecordBatch, str], _Samples]:
    function, lookups = _function(spec)
    schema = Schema.from_json(spec.schema_fields())
    encoder, size = ColumnEncoder(schema), schema.record_dtype.itemsize

    def samples_of(batch: pa.RecordBatch, source: str) -> _Samples:
        found = function(source_batch(batch, source), lookups)
        reasons = (found.column(name) for name in ("_filtered", "_rejected"))
        turned = [column.is_valid().to_numpy(zero_copy_only=False) for column in reasons]
        kept = np.flatnonzero(~(turned[0] | turned[1]))
        data = encoder.encode(found.select(list(schema.names))).buffers()[2]
        records = np.frombuffer(data, f"V{size}", len(found))
        return kept, records.take(kept)

    return samples_of


def _by_record(spec: DatasetSpec) -> Callable[[pa.RecordBatch, str], _Samples]:
    function, lookups = _function(spec)
    size = Schema.from_json(spec.schema_fields()).record_dtype.itemsize
    label = struct.Struct("<q").pack

    def pieces(batch: pa.RecordBatch, source: str, rows: list[int]) -> Iterator[bytes]:
        for row, record in enumerate(iter_landed(batch, source)):
            sample = function(record, lookups)
            if type(sample) is dict:
                rows.append(row)
                yield sample["indices"].tobytes()
                yield sample["values"].tobytes()
                yield label(sample["label"])

    def samples_of(batch: pa.RecordBatch, source: str) -> _Samples:
        rows: list[int] = []
        data = b"".join(pieces(batch, source, rows))
        return np.array(rows), np.frombuffer(data, f"V{size}")

    return samples_of


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
