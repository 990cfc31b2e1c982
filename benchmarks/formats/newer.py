# ruff: noqa: PLC0415 - systems that cannot live in one process
"""Data set A in Vortex, Lance and bagz: written, read in order, and read by record numbers.

Vortex and Lance have a column for the images, bagz has records of 792 bytes. A column of byte
strings suits both better than one of lists of fixed size, and both are here. Lance and bagz
give changed bytes without an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from data import SetA

__all__ = ["BY_NAME", "Arrays", "Format", "columns_of", "rows_of"]

Arrays = tuple[NDArray[np.uint8], NDArray[np.int64]]
Numbers = NDArray[np.int64]


class Format(NamedTuple):
    """A peer in one of its layouts.

    Attributes:
        write: Writes data set A to a path that is not there.
        read: Path → images and labels of all samples, in order, in parts of any size.
        take: Path → what returns the samples of a list of numbers, in its order.
    """

    write: Callable[[Path, SetA], None]
    read: Callable[[Path], Callable[[], Iterator[Arrays]]]
    take: Callable[[Path], Callable[[Numbers], Arrays]]


def rows_of(a: SetA) -> Iterator[bytes]:
    """Return the samples as records of 792 bytes."""
    for image, label in zip(a.images, a.labels, strict=True):
        yield image.tobytes() + label.tobytes()


def columns_of(records: list[bytes]) -> Arrays:
    """Return the images, as a view, and labels of records of 792 bytes."""
    rows = np.frombuffer(b"".join(records), np.uint8).reshape(len(records), 792)
    return rows[:, :784], rows[:, 784:].copy().view(np.int64)[:, 0]


def _table(a: SetA, *, lists: bool) -> pa.Table:
    if lists:
        images = pa.FixedSizeListArray.from_arrays(pa.array(a.images.reshape(-1)), 784)
    else:
        ends = pa.py_buffer(np.arange(len(a.labels) + 1, dtype=np.int32) * 784)
        images = pa.Array.from_buffers(
            pa.binary(), len(a.labels), [None, ends, pa.py_buffer(a.images)]
        )
    return pa.table({"image": images, "label": pa.array(a.labels)})


def _arrays(images: Any, labels: Any) -> Arrays:
    """Return a column of images, in whichever layout, without a copy if it is in one piece."""
    if isinstance(images, pa.ChunkedArray):
        images = images.combine_chunks()
    if pa.types.is_fixed_size_list(images.type):
        return images.flatten().to_numpy().reshape(-1, 784), labels.to_numpy()
    if pa.types.is_binary_view(images.type):
        images = images.cast(pa.binary())
    kind = np.int64 if pa.types.is_large_binary(images.type) else np.int32
    _, ends, payload = images.buffers()
    first = int(np.frombuffer(ends, kind)[images.offset])
    pixels = np.frombuffer(payload, np.uint8, len(images) * 784, first)
    return pixels.reshape(-1, 784), labels.to_numpy()


def _write_vortex(path: Path, a: SetA, *, lists: bool) -> None:
    import vortex

    vortex.io.write(_table(a, lists=lists), str(path))


def _read_vortex(path: Path) -> Callable[[], Iterator[Arrays]]:
    import vortex

    file = vortex.open(str(path))

    def read() -> Iterator[Arrays]:
        for batch in file.to_arrow(batch_size=1280):
            yield _arrays(batch.column(0), batch.column(1))

    return read


def _take_vortex(path: Path) -> Callable[[Numbers], Arrays]:
    """Read numbers in order, as it demands, and restore the order of the list."""
    import vortex

    file = vortex.open(str(path))

    def take(numbers: Numbers) -> Arrays:
        found, back = np.unique(numbers, return_inverse=True)
        wanted = vortex.array(pa.array(found.astype(np.uint64)))
        struct = file.scan(indices=wanted).read_all().to_arrow_array()
        if isinstance(struct, pa.ChunkedArray):
            struct = struct.combine_chunks()
        images, labels = _arrays(struct.field(0), struct.field(1))
        return images.take(back, 0), labels.take(back)

    return take


def _write_lance(path: Path, a: SetA, *, lists: bool) -> None:
    import lance

    lance.write_dataset(_table(a, lists=lists), str(path))


def _read_lance(path: Path) -> Callable[[], Iterator[Arrays]]:
    import lance

    data = lance.dataset(str(path))

    def read() -> Iterator[Arrays]:
        for batch in data.to_batches(batch_size=4096):
            yield _arrays(batch.column(0), batch.column(1))

    return read


def _take_lance(path: Path) -> Callable[[Numbers], Arrays]:
    import lance

    data = lance.dataset(str(path))

    def take(numbers: Numbers) -> Arrays:
        table = data.take(numbers.tolist())
        return _arrays(table.column(0), table.column(1))

    return take


def _write_bagz(path: Path, a: SetA) -> None:
    import bagz

    options = bagz.Writer.Options(compression=bagz.CompressionNone())
    with bagz.Writer(str(path), options) as writer:
        for record in rows_of(a):
            writer.write(record)


def _open_bagz(path: Path) -> Any:
    import bagz

    none, kept = bagz.CompressionNone(), bagz.LimitsStorage.IN_MEMORY
    return bagz.Reader(str(path), bagz.Reader.Options(compression=none, limits_storage=kept))


def _read_bagz(path: Path) -> Callable[[], Iterator[Arrays]]:
    reader = _open_bagz(path)

    def read() -> Iterator[Arrays]:
        for start in range(0, len(reader), 1280):
            count = min(1280, len(reader) - start)
            yield columns_of(reader.read_range(start, count))

    return read


def _take_bagz(path: Path) -> Callable[[Numbers], Arrays]:
    reader = _open_bagz(path)
    return lambda numbers: columns_of(reader.read_indices(numbers))


def _of_arrow(name: str, *, lists: bool) -> Format:
    write, read, take = {
        "Vortex": (_write_vortex, _read_vortex, _take_vortex),
        "Lance": (_write_lance, _read_lance, _take_lance),
    }[name]
    return Format(lambda path, a: write(path, a, lists=lists), read, take)


# Name → file of a folder → the format.
BY_NAME: dict[str, tuple[str, Format]] = {
    "Vortex, bytes": ("a-bytes.vortex", _of_arrow("Vortex", lists=False)),
    "Vortex, lists": ("a-lists.vortex", _of_arrow("Vortex", lists=True)),
    "Lance, bytes": ("a-bytes.lance", _of_arrow("Lance", lists=False)),
    "Lance, lists": ("a-lists.lance", _of_arrow("Lance", lists=True)),
    "bagz": ("a.bagz", Format(_write_bagz, _read_bagz, _take_bagz)),
}
