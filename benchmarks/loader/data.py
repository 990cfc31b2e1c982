"""The two sets of the loader's benchmarks, made once, the same every time.

A: 60,000 samples of an image (uint8, 784 bytes, a fifth of them not 0) and a label, 47 MB.
B: 20,000 samples of a blob (10 to 40 KB that do not compress) and a label, 500 MB.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from trainfeed.loader import RecordFiles
from trainfeed.recordio import Codec, RecordWriter
from trainfeed.samples import Field, Schema, TypedCodec

__all__ = ["NUM_A", "NUM_B", "A", "B", "images", "many_shards", "set_a", "set_b"]

NUM_A, NUM_B = 60_000, 20_000
A = Schema((Field("image", "uint8", (784,)), Field("label", "int64")))
B = Schema((Field("label", "int64"), Field("blob", "bytes")))
_SHARDS_A, _SHARDS_B = 4, 16


def images(num_samples: int = NUM_A) -> dict[str, np.ndarray]:
    """Return the columns of A."""
    random = np.random.default_rng(0)
    coarse = random.random((num_samples, 7, 7), dtype=np.float32)
    fine = coarse.repeat(4, 1).repeat(4, 2)
    for axis in (1, 2):
        fine = (fine + np.roll(fine, 1, axis) + np.roll(fine, 2, axis)) / 3
    pixels = np.clip((fine - 0.62) * 1400, 0, 255).astype(np.uint8) & 0xF8
    labels = np.arange(num_samples, dtype=np.int64)
    return {"image": pixels.reshape(num_samples, 784), "label": labels}


def set_a(folder: Path, codec: Codec) -> RecordFiles:
    """Return A in one codec; its files are written when they are missing."""
    paths = [folder / f"a-{codec.name.lower()}-{i}" for i in range(_SHARDS_A)]
    if not all(path.exists() for path in paths):
        records = TypedCodec(A).encode_columns(images())
        for i, path in enumerate(paths):
            size = NUM_A // _SHARDS_A
            with RecordWriter(path, codec=codec) as writer:
                writer.write_array(records[i * size : (i + 1) * size])
    return RecordFiles(paths, A)


def set_b(folder: Path) -> RecordFiles:
    """Return B, not compressed."""
    paths = [folder / f"b-{i}" for i in range(_SHARDS_B)]
    if not all(path.exists() for path in paths):
        random, codec, label = np.random.default_rng(3), TypedCodec(B), 0
        for path in paths:
            with RecordWriter(path) as writer:
                for _ in range(NUM_B // _SHARDS_B):
                    blob = random.bytes(int(random.integers(10_000, 40_000)))
                    writer.write(codec.encode({"label": np.int64(label), "blob": blob}))
                    label += 1
    return RecordFiles(paths, B, immutable=True)


def many_shards(folder: Path, num_shards: int) -> RecordFiles:
    """Return a set of many shards of 1,280 samples each."""
    paths = [folder / f"many-{i:05d}" for i in range(num_shards)]
    if not all(path.exists() for path in paths):
        records = TypedCodec(A).encode_columns(images(1280))
        for path in paths:
            with RecordWriter(path) as writer:
                writer.write_array(records)
    return RecordFiles(paths, A)
