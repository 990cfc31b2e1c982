# ruff: noqa: PLC0415 - systems that cannot live in one process
"""Writes data sets A and B in the format of each system; ``python write.py FOLDER SYSTEM``."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from newer import BY_NAME, rows_of

from data import SetA, SetB, make_a, make_b

__all__ = ["SCHEMA_A", "SCHEMA_B", "WRITERS", "item_of"]

SCHEMA_A = [("image", "uint8", (784,)), ("label", "int64", ())]
SCHEMA_B = [("blob", "bytes", ()), ("label", "int64", ())]


def write_trainfeed(folder: Path, a: SetA, b: SetB) -> None:
    """A in chunks of 1 MiB as it is, lz4 and zstd; B in chunks of 4 MiB."""
    from trainfeed.recordio import Codec, RecordWriter
    from trainfeed.samples import Field, Schema, TypedCodec

    schema = Schema(tuple(Field(*field) for field in SCHEMA_A))
    records = TypedCodec(schema).encode_columns({"image": a.images, "label": a.labels})
    for codec in (Codec.NONE, Codec.LZ4, Codec.ZSTD):
        with RecordWriter(folder / f"a.{codec.name.lower()}", codec=codec) as writer:
            writer.write_array(records)
    encode = TypedCodec(Schema(tuple(Field(*field) for field in SCHEMA_B))).encode
    with RecordWriter(folder / "b", max_chunk_bytes=4 << 20) as writer:
        for blob, label in zip(b.blobs, b.labels.tolist(), strict=True):
            writer.write(encode({"blob": blob, "label": label}))


_SPEC = """
name: blobs
description: data set B
schedule: "@daily"
start: 2024-03-01
end: 2024-03-31
seed: 7
source: {kafka: {connection: kafka_default, topic: blobs, settle: 0s}}
preprocess: {function: "preprocess:blobs", input: record}
schema: {blob: {dtype: bytes}, label: {dtype: int64}}
split: {train: 1.0, by: record}
output: {codec: none, chunk_bytes: 4MiB, samples_per_shard: 20000}
"""
_CODE = """
def blobs(record, lookups):
    return [{"blob": record.value[8:], "label": int.from_bytes(record.value[:8], "little")}]
"""


def write_published(folder: Path, _: SetA, b: SetB) -> None:
    """B as a published data set: recorded as a topic, built and published."""
    import pyarrow as pa

    from trainfeed.core.config import Environment, KafkaSettings
    from trainfeed.files.stores import Location
    from trainfeed.pipeline import BuildRequest
    from trainfeed.pipeline.local import build
    from trainfeed.sources import LANDING_SCHEMA, record_topic
    from trainfeed.specification import load_spec
    from trainfeed.versions import init_root

    home = folder / "datasets" / "blobs"
    home.mkdir(parents=True)
    (home / "dataset.yaml").write_text(_SPEC)
    (home / "preprocess.py").write_text(_CODE)
    init_root(folder / "root")
    labels = b.labels.astype("<i8")
    values = [label.tobytes() + blob for label, blob in zip(labels, b.blobs, strict=True)]
    start_ms = 1_709_251_200_000  # 1 March 2024
    rows: list[dict[str, Any]] = [
        {"offset": i, "timestamp": start_ms + i, "timestamp_type": 0, "headers": [], "value": value}
        for i, value in enumerate(values)
    ]
    batches = (
        pa.RecordBatch.from_pylist(
            [{"key": None, **row} for row in rows[i : i + 1000]], schema=LANDING_SCHEMA
        )
        for i in range(0, len(rows), 1000)
    )
    place = Location.parse(str(folder / "recorded")) / "blobs"
    record_topic(place, "blobs", "11111111-1111-4111-8111-111111111111", {0: batches}, 1000)
    env = Environment(
        root=str(folder / "root"),
        landing=str(folder / "landing"),
        work=str(folder / "work"),
        kafka={"kafka_default": KafkaSettings(recorded=str(folder / "recorded"))},
        datasets=home.parent,
    )
    spec = load_spec(home)
    build(spec, spec.schedule_model().interval_named("2024-03-01"), env, BuildRequest())
    for name in ("recorded", "landing", "work"):
        shutil.rmtree(folder / name, ignore_errors=True)


def write_newer(folder: Path, a: SetA, _: SetB) -> None:
    """Vortex, Lance and bagz, in all layouts."""
    for file, newer in BY_NAME.values():
        newer.write(folder / file, a)


def write_array_record(folder: Path, a: SetA, _: SetB) -> None:
    """One file per group size: 256 for reading in order, 1 for reading by number."""
    from array_record.python.array_record_module import ArrayRecordWriter

    records = list(rows_of(a))
    for group_size in (1, 256):
        name = str(folder / f"a-{group_size}")
        writer = ArrayRecordWriter(name, f"group_size:{group_size},uncompressed")
        for record in records:
            writer.write(record)
        writer.close()


def write_datasets(folder: Path, a: SetA, b: SetB) -> None:
    """Arrow tables, as ``save_to_disk`` lays them out."""
    import pyarrow as pa

    import datasets

    values = pa.array(a.images.reshape(-1))
    table_a = pa.table(
        {"image": pa.FixedSizeListArray.from_arrays(values, 784), "label": pa.array(a.labels)}
    )
    table_b = pa.table({"blob": pa.array(b.blobs, pa.binary()), "label": pa.array(b.labels)})
    for name, table in (("a", table_a), ("b", table_b)):
        datasets.Dataset(table).save_to_disk(str(folder / name))


def write_tensorflow(folder: Path, a: SetA, _: SetB) -> None:
    """TFRecord of Examples in four files, for interleaving."""
    import tensorflow as tf

    train = tf.train
    for shard in range(4):
        with tf.io.TFRecordWriter(str(folder / f"a-{shard}.tfrecord")) as writer:
            for image, label in zip(a.images[shard::4], a.labels[shard::4].tolist(), strict=True):
                pixels = train.Feature(bytes_list=train.BytesList(value=[image.tobytes()]))
                number = train.Feature(int64_list=train.Int64List(value=[label]))
                features = train.Features(feature={"image": pixels, "label": number})
                writer.write(train.Example(features=features).SerializeToString())


def write_streaming(folder: Path, a: SetA, _: SetB) -> None:
    """MDS, shards of 64 MiB, uncompressed, columns of fixed shape."""
    from streaming import MDSWriter

    columns = {"image": "ndarray:uint8:784", "label": "int64"}
    with MDSWriter(out=str(folder / "a"), columns=columns) as writer:
        for image, label in zip(a.images, a.labels, strict=True):
            writer.write({"image": image, "label": label})


def write_webdataset(folder: Path, a: SetA, _: SetB) -> None:
    """Tar files of 15,000 samples each."""
    import webdataset

    with webdataset.ShardWriter(str(folder / "a-%d.tar"), maxcount=15_000, verbose=0) as writer:
        for i, (image, label) in enumerate(zip(a.images, a.labels.tolist(), strict=True)):
            writer.write({"__key__": f"{i:06d}", "image.bin": image.tobytes(), "label.cls": label})


def write_litdata(folder: Path, a: SetA, b: SetB) -> None:
    """Chunks of 64 MB, uncompressed, by one worker."""
    import litdata

    for name, source in (("a", a), ("b", b)):
        np.save(folder / f"{name}.labels.npy", source.labels)
        litdata.optimize(
            fn=_LitItem(source),
            inputs=list(range(len(source.labels))),
            output_dir=str(folder / name),
            chunk_bytes="64MB",
            num_workers=1,
            verbose=False,
            start_method="fork",
        )


class _LitItem:
    def __init__(self, source: SetA | SetB) -> None:
        self.source = source

    def __call__(self, index: int) -> dict[str, Any]:
        return item_of(self.source, index)


def item_of(source: SetA | SetB, index: int) -> dict[str, Any]:
    """Return one sample."""
    name = "image" if isinstance(source, SetA) else "blob"
    return {name: source[0][index], "label": int(source.labels[index])}


def write_torch(folder: Path, a: SetA, _: SetB) -> None:
    """No format: two arrays."""
    np.save(folder / "images.npy", a.images)
    np.save(folder / "labels.npy", a.labels)


WRITERS: dict[str, Callable[[Path, SetA, SetB], None]] = {
    "trainfeed": write_trainfeed,
    "published": write_published,
    "array_record": write_array_record,
    "newer": write_newer,
    "datasets": write_datasets,
    "tensorflow": write_tensorflow,
    "streaming": write_streaming,
    "webdataset": write_webdataset,
    "litdata": write_litdata,
    "torch": write_torch,
}


def main() -> None:
    """Write the sets of one system, unless they are there."""
    folder = Path(sys.argv[1]) / sys.argv[2]
    if (folder / "complete").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    WRITERS[sys.argv[2]](folder, make_a(), make_b())
    (folder / "complete").touch()


if __name__ == "__main__":
    main()
