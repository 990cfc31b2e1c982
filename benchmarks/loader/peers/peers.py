# ruff: noqa: PLC0415 - systems that cannot live in one process
"""One pass over data set A or B with each peer, in the configuration that suits it best.

A pass hands over numpy arrays, 128 samples at a time, and returns how many samples there were.
Where a peer has several ways that might be its best, all of them are here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from newer import BY_NAME, Arrays, Format, columns_of
from numpy.typing import NDArray

__all__ = ["A_SHUFFLED", "B_SHUFFLED", "Pass"]

Pass = Callable[[], int]

BATCH = 128
NUM_A, NUM_B = 60_000, 20_000


def _count(batches: Iterable[Any]) -> int:
    return sum(len(labels) for _, labels in batches)


def _steadily(batches: Callable[[], Iterator[Any]]) -> Pass:
    """Return passes of a sixth of an epoch; an epoch goes on where the pass before has stopped.

    For systems that need seconds for an epoch. What they do between two epochs is timed as well.
    """

    def endless() -> Iterator[Any]:
        while True:
            yield from batches()

    source = endless()

    def run() -> int:
        count = 0
        while count < NUM_A // 6:
            count += len(next(source)[1])
        return count

    return run


def _cut(columns: Arrays) -> Iterator[Arrays]:
    for start in range(0, len(columns[1]), BATCH):
        yield columns[0][start : start + BATCH], columns[1][start : start + BATCH]


def _by_lists(take: Callable[[NDArray[np.int64]], Arrays], size: int) -> Pass:
    """Lists of numbers from one permutation, read at once and cut in the order of the lists."""
    epochs = iter(range(1 << 30))

    def batches() -> Iterator[Arrays]:
        order = np.random.default_rng(next(epochs)).permutation(NUM_A)
        for start in range(0, NUM_A, size):
            yield from _cut(take(order[start : start + size]))

    return lambda: _count(batches())


def array_record(folder: Path, *, size: int, group: int, parallel: str) -> Pass:
    """Lists read at once."""
    from array_record.python.array_record_module import ArrayRecordReader

    options = f"readahead_buffer_size:0,max_parallelism:{parallel}"
    reader = ArrayRecordReader(str(folder / f"a-{group}"), options)
    return _by_lists(lambda numbers: columns_of(reader.read(numbers.tolist())), size)


def newer(folder: Path, *, file: str, kind: Format, size: int) -> Pass:
    """The same from Vortex, Lance and bagz."""
    return _by_lists(kind.take(folder / file), size)


def datasets_map(folder: Path, *, kind: str) -> Pass:
    """``Dataset.shuffle`` and batches of the indirect table."""
    data = _load_arrow(folder / "a")
    epochs = iter(range(1 << 30))

    def batches() -> Iterator[Arrays]:
        shuffled = data.shuffle(seed=next(epochs)).with_format(kind)
        yield from map(_of_table if kind == "arrow" else _of_mapping, shuffled.iter(BATCH))

    return lambda: _count(batches())


def datasets_iterable(folder: Path, *, kind: str) -> Pass:
    """A buffer of 10,000 samples over 8 shards, as its documentation has it for training."""
    data = _load_arrow(folder / "a").with_format(kind).to_iterable_dataset(num_shards=8)
    shuffled = data.shuffle(seed=0, buffer_size=10_000)
    epochs = iter(range(1 << 30))

    def batches() -> Iterator[Arrays]:
        shuffled.set_epoch(next(epochs))
        yield from map(_of_table if kind == "arrow" else _of_mapping, shuffled.iter(BATCH))

    return lambda: _count(batches())


def _load_arrow(folder: Path) -> Any:
    import datasets

    datasets.disable_caching()
    return datasets.load_from_disk(str(folder))


def _of_table(table: Any) -> Arrays:
    images = table.column("image").combine_chunks()
    pixels = images.flatten().to_numpy(zero_copy_only=False).reshape(len(images), 784)
    return pixels, table.column("label").to_numpy()


def _of_mapping(batch: dict[str, Any]) -> Arrays:
    return batch["image"], batch["label"]


def tensorflow(folder: Path) -> Pass:
    """Interleaved files, a buffer of 10,000 records, batches parsed at once in parallel."""
    import tensorflow as tf

    features = {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    }

    def parse(records: Any) -> Any:
        parsed = tf.io.parse_example(records, features)
        return tf.io.decode_raw(parsed["image"], tf.uint8, fixed_length=784), parsed["label"]

    names = [str(path) for path in sorted(folder.glob("*.tfrecord"))]
    data = (
        tf.data.Dataset.from_tensor_slices(names)
        .shuffle(len(names))
        .interleave(tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE)
        .shuffle(10_000)
        .batch(BATCH)
        .map(parse, num_parallel_calls=tf.data.AUTOTUNE)
        .prefetch(tf.data.AUTOTUNE)
    )
    return lambda: _count(data.as_numpy_iterator())


def streaming(folder: Path, *, workers: int) -> Pass:
    """Its own loader over its own order, ``py1e``."""
    from streaming import StreamingDataLoader, StreamingDataset

    data = StreamingDataset(local=str(folder / "a"), shuffle=True, batch_size=BATCH)
    more = {"persistent_workers": True, "prefetch_factor": 4} if workers else {}
    loader = StreamingDataLoader(data, batch_size=BATCH, num_workers=workers, **more)

    def batches() -> Iterator[Arrays]:
        for batch in loader:
            yield batch["image"].numpy(), batch["label"].numpy()

    return _steadily(batches)


def webdataset(folder: Path) -> Pass:
    """A buffer of 5,000 samples, batched by the library itself."""
    import webdataset as wds

    def decode(sample: dict[str, Any]) -> tuple[NDArray[np.uint8], int]:
        return np.frombuffer(sample["image.bin"], np.uint8), int(sample["label.cls"])

    names = [str(path) for path in sorted(folder.glob("*.tar"))]
    data = wds.WebDataset(names, shardshuffle=len(names)).shuffle(5000).map(decode).batched(BATCH)
    return _steadily(lambda: iter(data))


def litdata(folder: Path, *, name: str, window: str | None = None) -> Pass:
    """Its own loader over one local folder; whole chunks decoded at once or as it decides."""
    import litdata

    field = "image" if name == "a" else "blob"
    data = litdata.StreamingDataset(
        str(folder / name),
        shuffle=True,
        item_shuffle_window=window,
        batch_decode="all" if window == "full" else "auto",
    )
    more: dict[str, Any] = {"collate_fn": _listed} if name == "b" else {}
    loader = litdata.StreamingDataLoader(data, batch_size=BATCH, num_workers=0, **more)
    return lambda: _count((batch[field], batch["label"]) for batch in loader)


def _listed(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: [item[name] for item in items] for name in items[0]}


def grain(folder: Path, *, threads: int, pushdown: bool) -> Pass:
    """A global shuffle over ArrayRecord; with ``pushdown`` the switch that reads lists at once."""
    import grain.python as library
    from grain._src.python.dataset.transformations import batch as batching

    if pushdown:
        batching._is_batch_map_pushdown_experiment_enabled = lambda: True  # noqa: SLF001
    source = library.ArrayRecordDataSource([str(folder / "a-1")])  # for reading by number
    options = library.ReadOptions(num_threads=threads, prefetch_buffer_size=64)
    epochs = iter(range(1 << 30))

    def batches() -> Iterator[Arrays]:
        shuffled = library.MapDataset.source(source).shuffle(seed=next(epochs))
        if pushdown:
            yield from shuffled.batch(BATCH, batch_fn=columns_of).to_iter_dataset(options)
        else:
            yield from shuffled.map(_one).batch(BATCH).to_iter_dataset(options)

    return _steadily(batches)


def _one(record: bytes) -> tuple[NDArray[np.uint8], np.int64]:
    return np.frombuffer(record, np.uint8, 784), np.frombuffer(record, np.int64, 1, 784)[0]


def torch(folder: Path, *, workers: int) -> Pass:
    """No format: an array in a mapped file, gathered by lists of numbers."""
    from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

    class Mapped(Dataset):
        def __init__(self) -> None:
            self.images = np.load(folder / "images.npy", mmap_mode="r")
            self.labels = np.load(folder / "labels.npy")

        def __len__(self) -> int:
            return len(self.labels)

        def __getitem__(self, rows: list[int]) -> Arrays:
            return self.images[rows], self.labels[rows]

    data = Mapped()
    sampler = BatchSampler(RandomSampler(data), BATCH, drop_last=False)
    more = {"persistent_workers": True} if workers else {}
    loader = DataLoader(data, sampler=sampler, batch_size=None, num_workers=workers, **more)
    return lambda: _count(loader)


def datasets_blobs(folder: Path, *, owned: bool) -> Pass:
    """Shuffled B: ``Dataset.shuffle``, the bytes copied out of the table or left in it."""
    data = _load_arrow(folder / "b")
    epochs = iter(range(1 << 30))

    def batches() -> Iterator[tuple[list[Any], NDArray[np.int64]]]:
        for table in data.shuffle(seed=next(epochs)).with_format("arrow").iter(BATCH):
            blobs = table.column("blob")
            values = blobs.to_pylist() if owned else [value.as_buffer() for value in blobs]
            yield values, table.column("label").to_numpy()

    return lambda: _count(batches())


# What is measured → folder of the data → how a pass is made.
A_SHUFFLED: dict[str, tuple[str, Callable[[Path], Pass]]] = {
    **{
        f"ArrayRecord lists of {size}, groups of {group}, {parallel} threads": (
            "array_record",
            partial(array_record, size=size, group=group, parallel=parallel),
        )
        for size, group, parallel in (
            (8192, 1, "0"),
            (8192, 1, "2"),
            (8192, 256, "0"),
            (8192, 256, "2"),
        )
    },
    **{
        f"{name}, lists of 8192": ("newer", partial(newer, file=file, kind=kind, size=8192))
        for name, (file, kind) in BY_NAME.items()
    },
    "HF datasets shuffle, arrow": ("datasets", partial(datasets_map, kind="arrow")),
    "HF datasets shuffle, numpy": ("datasets", partial(datasets_map, kind="numpy")),
    **{
        f"HF iterable shuffle(10k), {kind}": ("datasets", partial(datasets_iterable, kind=kind))
        for kind in ("arrow", "numpy")
    },
    "tf.data shuffle(10k)": ("tensorflow", tensorflow),
    "MosaicML py1e, 0 workers": ("streaming", partial(streaming, workers=0)),
    "MosaicML py1e, 2 workers": ("streaming", partial(streaming, workers=2)),
    "WebDataset shuffle(5000)": ("webdataset", webdataset),
    "LitData, 0 workers": ("litdata", partial(litdata, name="a")),
    "LitData, 0 workers, whole chunks": (
        "litdata",
        partial(litdata, name="a", window="full"),
    ),
    "Grain, 1 thread": ("array_record", partial(grain, threads=1, pushdown=False)),
    "Grain, 16 threads": ("array_record", partial(grain, threads=16, pushdown=False)),
    "Grain, batched reads (internal switch), 2 threads": (
        "array_record",
        partial(grain, threads=2, pushdown=True),
    ),
    "torch DataLoader, lists, raw memmap (no format)": ("torch", partial(torch, workers=0)),
}
B_SHUFFLED: dict[str, tuple[str, Callable[[Path], Pass]]] = {
    "HF datasets shuffle, arrow, owned bytes": ("datasets", partial(datasets_blobs, owned=True)),
    "HF datasets shuffle, arrow, views": ("datasets", partial(datasets_blobs, owned=False)),
    "LitData, 0 workers": ("litdata", partial(litdata, name="b")),
}
