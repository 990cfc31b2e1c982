"""One pass over data set A or B with trainfeed."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from write import SCHEMA_A, SCHEMA_B

from trainfeed.loader import DataLoader, RecordFiles
from trainfeed.readers import open_dataset
from trainfeed.samples import Field, SampleReader, Schema

__all__ = ["CASES"]

Pass = Callable[[], int]
BATCH = 128
CHUNK = 1310  # samples of A in a chunk of 1 MiB
EPOCHS = 20


def schema_of(name: str) -> Schema:
    """Return the schema of the set in a file."""
    return Schema(tuple(Field(*field) for field in (SCHEMA_B if name == "b" else SCHEMA_A)))


def loader(
    folder: Path,
    *,
    name: str = "a.none",
    epochs: int = 1,
    immutable: bool = False,
    **options: Any,
) -> Pass:
    """Whole epochs through the DataLoader; immutable files are mapped, as most peers do."""
    files = RecordFiles(str(folder / name), schema_of(name), immutable=immutable)
    source = DataLoader(files, BATCH, **options)
    return lambda: sum(len(batch["label"]) for _ in range(epochs) for batch in source)


def published(folder: Path, **options: Any) -> Pass:
    """One epoch of published B, which is mapped, as no published file ever changes."""
    data = open_dataset(
        "blobs", interval="2024-03-01", split="train", root=folder.parent / "published" / "root"
    )
    source = DataLoader(data, BATCH, shuffle=True, **options)
    return lambda: sum(len(batch["label"]) for batch in source)


def bare(folder: Path, *, name: str = "a.none", epochs: int = 1, threads: int = 1) -> Pass:
    """The decode loop without a loader: read, checksum, decode, cut."""
    reader = SampleReader(folder / name, schema_of(name), threads=threads)
    return lambda: sum(
        len(batch["label"]) for _ in range(epochs) for batch in reader.iter_batches(BATCH)
    )


def pickled(folder: Path, *, processes: int) -> Pass:
    """The same chunks, decoded in child processes, through a queue that pickles them."""
    context = multiprocessing.get_context("fork")
    chunks, orders = context.Queue(8), context.Queue()
    for number in range(processes):
        context.Process(
            target=_feed, args=(folder, orders, chunks, number, processes), daemon=True
        ).start()

    def batches() -> Iterator[int]:
        for _ in range(processes):
            orders.put(EPOCHS)
        ended = 0
        while ended < processes:
            columns = chunks.get()
            if columns is None:
                ended += 1
                continue
            labels = columns["label"]
            for start in range(0, len(labels), BATCH):
                cut = {name: column[start : start + BATCH] for name, column in columns.items()}
                yield len(cut["label"])

    return lambda: sum(batches())


def _feed(folder: Path, orders: Any, chunks: Any, number: int, processes: int) -> None:
    reader = SampleReader(folder / "a.none", schema_of("a"))
    while True:
        for _ in range(orders.get()):
            for place, columns in enumerate(reader.iter_batches(CHUNK)):
                if place % processes == number:
                    chunks.put(dict(columns))
        chunks.put(None)


# Case → what is measured → how a pass is made.
CASES: dict[str, dict[str, Callable[[Path], Pass]]] = {
    "A shuffled": {
        "trainfeed DataLoader, in-process": partial(loader, shuffle=True),
        "trainfeed DataLoader, in-process, copy=True": partial(loader, shuffle=True, copy=True),
        "trainfeed DataLoader, in-process, mapped": partial(loader, shuffle=True, immutable=True),
        "trainfeed DataLoader, 1 thread": partial(loader, shuffle=True, num_threads=1),
        "trainfeed DataLoader, 2 threads": partial(loader, shuffle=True, num_threads=2),
    },
    "A sequential, 20 epochs": {
        "trainfeed in-process": partial(loader, epochs=EPOCHS),
        "trainfeed 1 worker": partial(loader, epochs=EPOCHS, num_workers=1),
        "trainfeed 2 workers": partial(loader, epochs=EPOCHS, num_workers=2),
        "multiprocessing.Queue, 1 process": partial(pickled, processes=1),
        "multiprocessing.Queue, 2 processes": partial(pickled, processes=2),
    },
    "A prefetched": {
        "trainfeed bare decode": partial(bare, epochs=EPOCHS),
        "trainfeed in-process": partial(loader, epochs=EPOCHS),
        "trainfeed 1 thread": partial(loader, epochs=EPOCHS, num_threads=1),
    },
    "B shuffled": {
        "trainfeed published, owned bytes": published,
        "trainfeed published, owned bytes, 2 threads": partial(published, num_threads=2),
        "trainfeed files, owned bytes": partial(loader, name="b", shuffle=True, copy=True),
        "trainfeed files, owned bytes, 2 threads": partial(
            loader, name="b", shuffle=True, copy=True, num_threads=2
        ),
    },
    **{
        f"A {codec} shuffled": {
            "trainfeed sequential": partial(loader, name=f"a.{codec}", epochs=4),
            "trainfeed shuffled, in-process": partial(
                loader, name=f"a.{codec}", epochs=4, shuffle=True
            ),
            "trainfeed shuffled, 2 threads": partial(
                loader, name=f"a.{codec}", epochs=4, shuffle=True, num_threads=2
            ),
        }
        for codec in ("lz4", "zstd")
    },
}
