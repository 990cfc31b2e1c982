"""The passes of the peers in each case, each with the best setting that was found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tensorflow as tf
from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter
from isal.isal_zlib import crc32
from newer import BY_NAME, Format, rows_of
from ours import BATCH, random_lists

from data import SetA, SetB

__all__ = ["cases"]

Case = Callable[[], int]

# The group size for reading in order; for random reading a group is a record, as documented.
_WRITE_OPTIONS = "group_size:256,uncompressed"
_RANDOM_OPTIONS = "group_size:1,uncompressed"
ARROW_BATCH = 1280


def cases(folder: Path, a: SetA, b: SetB) -> dict[str, dict[str, Case]]:
    """Write the files, and return case → name of what is measured → one pass."""
    records_a = list(rows_of(a))
    records_b = [x + y.tobytes() for x, y in zip(b.blobs, b.labels, strict=True)]
    tf.config.threading.set_intra_op_parallelism_threads(2)
    for file, newer in BY_NAME.values():
        newer.write(folder / file, a)
    return {
        "A sequential": {
            "Arrow IPC, copies": _arrow(folder, a, None),
            "Arrow IPC, copies, with a checksum": _arrow(folder, a, None, checksum=True),
            "ArrayRecord, read_all": _array_record(folder / "a.ar", records_a, _WRITE_OPTIONS),
            "tf.data, TFRecord": _tf_data(folder, a),
            **{name: _newer(folder / file, newer) for name, (file, newer) in BY_NAME.items()},
            "raw readinto of 4 MiB": _raw(folder / "a.NONE"),
        },
        "A lz4": {"Arrow IPC": _arrow(folder, a, "lz4")},
        "A zstd": {
            "Arrow IPC": _arrow(folder, a, "zstd"),
            "ArrayRecord, read_all": _array_record(folder / "z.ar", records_a, "group_size:256"),
        },
        "A random lists of 128": {
            "ArrayRecord, read(list)": _array_record_lists(folder / "r.ar", records_a),
            **{name: _newer_lists(folder / file, newer) for name, (file, newer) in BY_NAME.items()},
        },
        "A write": {
            "ArrayRecord": lambda: _write_array_record(
                folder / "written.ar", records_a, _WRITE_OPTIONS
            ),
            "Arrow IPC, arrays": lambda: _write_arrow(folder / "written.arrow", a, None),
            "TFRecord": lambda: _write_tfrecord(folder / "written.tfrecord", records_a),
            **{
                name: _newer_written(folder / f"written-{file}", newer, a)
                for name, (file, newer) in BY_NAME.items()
            },
            "the same bytes, plain": _write_raw(folder),
        },
        "B sequential": {
            "ArrayRecord, read_all": _array_record(
                folder / "b.ar", records_b, "group_size:64,uncompressed"
            ),
            "Parquet": _parquet(folder / "b.parquet", b),
            "Arrow IPC, views, no checksum": _arrow_b(folder / "b.arrow", b),
        },
        "TFRecord of Examples to arrays (A)": {
            "tf.data, batched parse_example": _tf_data(folder, a)
        },
    }


def _table(a: SetA) -> pa.Table:
    images = pa.FixedSizeListArray.from_arrays(pa.array(a.images.reshape(-1)), 784)
    return pa.table({"image": images, "label": pa.array(a.labels)})


def _write_arrow(path: Path, a: SetA, codec: str | None) -> int:
    options = pa.ipc.IpcWriteOptions(compression=codec)
    table = _table(a)
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_file(sink, table.schema, options=options) as writer,
    ):
        writer.write_table(table, max_chunksize=ARROW_BATCH)
    return len(table)


def _arrow(folder: Path, a: SetA, codec: str | None, *, checksum: bool = False) -> Case:
    """Batches of a chunk's size; with a checksum of all bytes of each, compared before the copy."""
    path = folder / f"a.{codec}.arrow"
    _write_arrow(path, a, codec)
    # One thread, as where it is compared with.
    options = pa.ipc.IpcReadOptions(use_threads=False)
    right: list[int] = []

    def read() -> int:
        count = 0
        with (
            pa.memory_map(str(path)) as source,
            pa.ipc.open_file(source, options=options) as reader,
        ):
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                images = batch.column(0).flatten().to_numpy().reshape(-1, 784)
                labels = batch.column(1).to_numpy()
                if right and crc32(labels, crc32(images)) != right[number]:
                    raise ValueError(f"batch {number}: wrong checksum")
                for start in range(0, len(labels), BATCH):
                    image, label = images[start : start + BATCH], labels[start : start + BATCH]
                    if codec is None:
                        # Views of the map; what was decompressed is in memory of its own already.
                        image, label = image.copy(), label.copy()
                    count += len(label)
        return count

    if checksum:
        starts = range(0, len(a.labels), ARROW_BATCH)
        parts = (slice(start, start + ARROW_BATCH) for start in starts)
        right += [crc32(a.labels[part], crc32(a.images[part])) for part in parts]
    return read


def _arrow_b(path: Path, b: SetB) -> Case:
    table = pa.table({"blob": pa.array(b.blobs, pa.large_binary()), "label": b.labels})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=BATCH)

    def read() -> int:
        count = 0
        with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                count += len([value.as_buffer() for value in batch.column(0)])
                batch.column(1).to_numpy()
        return count

    return read


def _parquet(path: Path, b: SetB) -> Case:
    table = pa.table({"blob": b.blobs, "label": b.labels})
    pq.write_table(table, path, compression="none", use_dictionary=False, row_group_size=1024)

    def read() -> int:
        file = pq.ParquetFile(path, memory_map=True)
        return sum(
            len([value.as_buffer() for value in batch.column(0)])
            for batch in file.iter_batches(BATCH)
        )

    return read


def _newer(path: Path, newer: Format) -> Case:
    read = newer.read(path)

    def batches() -> int:
        count = 0
        for images, labels in read():
            for start in range(0, len(labels), BATCH):
                image, label = images[start : start + BATCH], labels[start : start + BATCH]
                count += len(image.copy()) and len(label.copy())
        return count

    return batches


def _newer_lists(path: Path, newer: Format) -> Case:
    take = newer.take(path)
    # A tenth of the lists: some need seconds for all of them.
    lists = [np.array(wanted) for wanted in random_lists(60_000)[::10]]
    return lambda: sum(len(take(wanted)[1]) for wanted in lists)


def _newer_written(path: Path, newer: Format, a: SetA) -> Case:
    def write() -> int:
        newer.write(path, a)
        return len(a.labels)

    return write


def _write_array_record(path: Path, records: list[bytes], options: str) -> int:
    writer = ArrayRecordWriter(str(path), options)
    for record in records:
        writer.write(record)
    writer.close()
    return len(records)


def _array_record(path: Path, records: list[bytes], options: str) -> Case:
    _write_array_record(path, records, options)
    reader = ArrayRecordReader(str(path))
    return lambda: len(reader.read_all())


def _array_record_lists(path: Path, records: list[bytes]) -> Case:
    _write_array_record(path, records, _RANDOM_OPTIONS)
    reader = ArrayRecordReader(str(path), "readahead_buffer_size:0")
    lists = random_lists(len(records))
    return lambda: sum(len(reader.read(wanted)) for wanted in lists)


def _write_tfrecord(path: Path, records: list[bytes]) -> int:
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)
    return len(records)


def _tf_data(folder: Path, a: SetA) -> Case:
    """Parse whole batches, best with four files and both steps inside the interleave."""
    paths, num_files = [], 4
    for number in range(num_files):
        paths.append(str(folder / f"a-{number}.tfrecord"))
        part = slice(number * len(a.labels) // num_files, (number + 1) * len(a.labels) // num_files)
        with tf.io.TFRecordWriter(paths[-1]) as writer:
            for image, label in zip(a.images[part], a.labels[part].tolist(), strict=True):
                writer.write(_example(image, label))
    features = {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    }

    def parse(records: tf.Tensor) -> dict[str, tf.Tensor]:
        columns = tf.io.parse_example(records, features)
        return {"image": tf.io.decode_raw(columns["image"], tf.uint8), "label": columns["label"]}

    files = tf.data.Dataset.from_tensor_slices(paths)
    dataset = files.interleave(
        lambda path: tf.data.TFRecordDataset(path, buffer_size=1 << 20).batch(BATCH).map(parse),
        cycle_length=num_files,
        num_parallel_calls=2,
        deterministic=True,
    ).prefetch(4)
    return lambda: sum(len(batch["label"]) for batch in dataset.as_numpy_iterator())


def _example(image: np.ndarray, label: int) -> bytes:
    feature = {
        "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image.tobytes()])),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
    }
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def _write_raw(folder: Path) -> Case:
    data = memoryview((folder / "a.NONE").read_bytes())
    # As much as a chunk. Multiples of pages are slower here: the kernel looks for pages in a row.
    size = 1_018_900

    def write() -> int:
        with (folder / "written").open("wb", buffering=0) as file:
            for start in range(0, len(data), size):
                file.write(data[start : start + size])
        return 60_000

    return write


def _raw(path: Path) -> Case:
    buffer = bytearray(4 << 20)

    def read() -> int:
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
        return 60_000

    return read
