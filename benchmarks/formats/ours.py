"""The passes of trainfeed in each case; every function is one pass over the data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from data import SetA, SetB
from trainfeed.recordio import Codec, RandomAccess, RecordWriter
from trainfeed.samples import Field, SampleReader, Schema, Statistics, TypedCodec
from trainfeed.tfrecord import ExampleCodec, TFRecordReader, TFRecordWriter

__all__ = ["Case", "cases"]

Case = Callable[[], int]

SCHEMA_A = Schema((Field("image", "uint8", (784,)), Field("label", "int64")))
SCHEMA_B = Schema((Field("blob", "bytes"), Field("label", "int64")))
BATCH = 128


def cases(folder: Path, a: SetA, b: SetB) -> dict[str, dict[str, Case]]:
    """Write the files, and return case → name of what is measured → one pass."""
    records = TypedCodec(SCHEMA_A).encode_columns({"image": a.images, "label": a.labels})
    for codec in (Codec.NONE, Codec.LZ4, Codec.ZSTD):
        with (folder / f"a.{codec.name}").open("wb") as file, RecordWriter(file, codec=codec) as w:
            w.write_array(records)
    encode = TypedCodec(SCHEMA_B).encode
    with (folder / "b").open("wb") as file, RecordWriter(file, max_chunk_bytes=4 << 20) as writer:
        for blob, label in zip(b.blobs, b.labels.tolist(), strict=True):
            writer.write(encode({"blob": blob, "label": label}))
    return {
        "A sequential": {
            "trainfeed, mapped": _read_a(folder / "a.NONE", mapped=True),
            "trainfeed, pread": _read_a(folder / "a.NONE"),
        },
        **{
            f"A {name.lower()}": {
                f"trainfeed, {threads} thread{'s' * (threads > 1)}": _read_a(
                    folder / f"a.{name}", threads=threads, mapped=True
                )
                for threads in (1, 2)
            }
            for name in ("LZ4", "ZSTD")
        },
        "A random lists of 128": _random(folder / "a.NONE", len(a.labels)),
        "A write": _write(folder / "written", a, records),
        "B sequential": {
            "trainfeed, mapped": _read_b(folder / "b", mapped=True),
            "trainfeed, pread": _read_b(folder / "b"),
        },
        "TFRecord of Examples to arrays (A)": {"trainfeed": _tfrecord(folder / "ours.tfrecord", a)},
    }


def _read_a(path: Path, *, threads: int = 1, mapped: bool = False) -> Case:
    reader = SampleReader(path, SCHEMA_A, threads=threads, mapped=mapped)
    return lambda: sum(len(batch["label"]) for batch in reader.iter_batches(BATCH))


def _read_b(path: Path, *, mapped: bool = False) -> Case:
    reader = SampleReader(path, SCHEMA_B, mapped=mapped, copy=False)
    return lambda: sum(len(batch["blob"]) for batch in reader.iter_batches(BATCH))


def _random(path: Path, num_records: int) -> dict[str, Case]:
    lists = random_lists(num_records)
    mapped, plain = RandomAccess(path, mapped=True), RandomAccess(path)
    codec = TypedCodec(SCHEMA_A)
    dtype = SCHEMA_A.record_dtype

    def arrays() -> int:
        return sum(
            len(codec.columns_of(mapped.gather(wanted).view(dtype)[:, 0])["label"])
            for wanted in lists
        )

    return {
        "trainfeed, mapped, bytes": lambda: sum(len(mapped.get_many(wanted)) for wanted in lists),
        "trainfeed, mapped, arrays": arrays,
        "trainfeed, pread, bytes": lambda: sum(len(plain.get_many(wanted)) for wanted in lists),
    }


def random_lists(num_records: int) -> list[list[int]]:
    """Return as many record numbers as there are records, in lists of 128."""
    generator = np.random.default_rng(5)
    return [generator.integers(0, num_records, BATCH).tolist() for _ in range(num_records // BATCH)]


def _write(path: Path, a: SetA, records: np.ndarray) -> dict[str, Case]:
    as_bytes = [record.tobytes() for record in records]

    def arrays() -> int:
        with path.open("wb", buffering=0) as file, RecordWriter(file) as writer:
            writer.write_array(records)
        return len(records)

    def columns(statistics: Statistics | None) -> int:
        codec = TypedCodec(SCHEMA_A)
        with path.open("wb", buffering=0) as file, RecordWriter(file) as writer:
            for start in range(0, len(a.labels), 4096):
                part = {
                    "image": a.images[start : start + 4096],
                    "label": a.labels[start : start + 4096],
                }
                writer.write_array(codec.encode_columns(part))
                if statistics is not None:
                    statistics.update_columns(part)
        return len(records)

    def record_by_record() -> int:
        with path.open("wb", buffering=0) as file, RecordWriter(file) as writer:
            for record in as_bytes:
                writer.write(record)
        return len(records)

    return {
        "trainfeed, arrays": arrays,
        "trainfeed, columns": lambda: columns(None),
        "trainfeed, columns, statistics": lambda: columns(Statistics(SCHEMA_A, sketches=False)),
        "trainfeed, columns, statistics with sketches": lambda: columns(Statistics(SCHEMA_A)),
        "trainfeed, record by record": record_by_record,
    }


def _tfrecord(path: Path, a: SetA) -> Case:
    codec = ExampleCodec(SCHEMA_A)
    with path.open("wb") as file, TFRecordWriter(file) as writer:
        for image, label in zip(a.images, a.labels, strict=True):
            writer.write(codec.encode({"image": image, "label": np.asarray(label)}))
    reader = TFRecordReader(path)
    return lambda: sum(
        len(codec.decode_records(records)["label"]) for records in reader.iter_batches(BATCH)
    )
