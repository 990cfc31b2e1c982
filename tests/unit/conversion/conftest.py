"""Samples that contain their own number."""

from __future__ import annotations

import tracemalloc
from contextlib import contextmanager

import numpy as np
import pytest

from trainfeed.recordio import RecordScanner
from trainfeed.samples import Field, Schema, TypedCodec

FIXED = Schema((Field("image", "uint8", (5,)), Field("label", "int64")))
VARIABLE = Schema((Field("label", "int64"), Field("text", "str"), Field("more", "bytes")))


def fixed_block(start, stop):
    """Samples of ``FIXED`` as a structured array."""
    block = np.zeros(stop - start, FIXED.record_dtype)
    block["label"] = np.arange(start, stop)
    block["image"] = (block["label"] % 251)[:, None]
    return block


def fixed_samples(count):
    """Make a reader of samples of ``FIXED``."""

    def reader():
        for label in range(count):
            yield {"image": [label % 251] * 5, "label": label}

    return reader


def variable_samples(count, bytes_each=37):
    """Make a reader of samples of ``VARIABLE``, which differ in length."""

    def reader():
        for label in range(count):
            yield {
                "label": label,
                "text": f"é{label}",
                "more": bytes([label % 256]) * (label % bytes_each),
            }

    return reader


def labels_of(folder, prefix="p", schema=FIXED):
    """The labels of each shard, in order."""
    codec = TypedCodec(schema)
    return {
        path.name: [codec.decode(record)["label"].item() for record in RecordScanner([path])]
        for path in sorted(folder.glob(f"{prefix}-*"))
    }


@contextmanager
def peak_below(num_bytes):
    """Fail when Python takes more memory within the block, also where the block raises."""
    tracemalloc.start()
    try:
        yield
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < num_bytes


def contents(folder, pattern="*"):
    """Name and bytes of the files of a folder."""
    return {path.name: path.read_bytes() for path in sorted(folder.glob(pattern)) if path.is_file()}


def names_in(folder):
    """Names of all that a folder holds, hidden ones too."""
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def out(tmp_path):
    """A folder that is there and empty."""
    folder = tmp_path / "out"
    folder.mkdir()
    return folder
