"""Small sets for the loader, and a guard: every test ends its processes and threads."""

import gc
import os
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from tests.support.shared_memory import named_segments
from trainfeed.loader import RecordFiles
from trainfeed.recordio import Codec, RecordWriter
from trainfeed.samples import Field, Schema, TypedCodec

# Records above 4 KiB make chunks of few records, so a small file has many chunks.
SCHEMA = Schema((Field("image", "uint8", (4200,)), Field("label", "int64")))
NOTES = Schema(
    (
        Field("label", "int64"),
        Field("note", "str"),
        Field("blob", "bytes"),
        Field("curve", "float32", (None, 2)),
        Field("flag", "bool", (), True),
        Field("more", "bytes", (), True),
    )
)


def image_columns(start, stop):
    labels = np.arange(start, stop)
    images = (labels[:, None] + np.arange(4200)) % 251
    return {"image": images.astype(np.uint8), "label": labels}


def note(i):
    return {
        "label": np.int64(i),
        "note": f"nöte {i}",
        "blob": bytes([i % 256]) * (i % 7),
        "curve": np.full((i % 4, 2), i, np.float32),
        "flag": None if i % 3 else np.bool_(i % 2),
        "more": None if i % 2 else b"more" * (i % 5),
    }


def write_images(folder, sizes, codec=Codec.NONE):
    """Write files of so many samples each, three per chunk; labels count through all files."""
    codec_of, start = TypedCodec(SCHEMA), 0
    for number, size in enumerate(sizes):
        with RecordWriter(
            folder / f"images-{number}", codec=codec, max_chunk_bytes=13_000
        ) as writer:
            writer.write_array(codec_of.encode_columns(image_columns(start, start + size)))
        start += size
    return RecordFiles(str(folder / "images-*"), SCHEMA)


@pytest.fixture
def images(tmp_path):
    """100 samples in 3 files and 34 chunks."""
    return write_images(tmp_path, [40, 37, 23])


@pytest.fixture
def notes(tmp_path):
    """60 samples of variable size in many chunks."""
    codec = TypedCodec(NOTES)
    with RecordWriter(tmp_path / "notes", max_chunk_bytes=1 << 20) as writer:
        for i in range(60):
            writer.write(codec.encode(note(i)))
    return RecordFiles(tmp_path / "notes", NOTES)


def labels(batches):
    """Return the labels of all rows that count, in order."""
    return [int(label) for batch in batches for label in batch["label"][batch.valid]]


def children():
    """Return the processes that this one has started and that are not gone."""
    found = set()
    for task in Path(f"/proc/{os.getpid()}/task").iterdir():
        with suppress(FileNotFoundError):  # a thread that has just ended
            found.update(map(int, (task / "children").read_text().split()))
    return found


def num_fds_before():
    """How many descriptors are open when nothing is left of earlier tests."""
    gc.collect()
    return num_fds()


def num_fds():
    return len(list(Path("/proc/self/fd").iterdir()))


def open_files():
    """Return the descriptors of this process, each with what it is of."""
    found = set()
    for fd in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the one that lists them
            found.add((fd.name, fd.readlink()))
    return found


def traces():
    """Return processes, threads, open files and files in shared memory."""
    return children() | set(threading.enumerate()) | named_segments() | open_files()


@pytest.fixture(autouse=True)
def nothing_left():
    """Fail a test that leaves a process, a thread, an open file or something in /dev/shm."""
    before = traces()
    yield
    if traces() - before:
        gc.collect()
    assert traces() - before == set()
