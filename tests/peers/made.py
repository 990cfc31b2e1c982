"""Record files of a thousand samples, and checks of the samples that arrive."""

import collections
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from trainfeed.loader import DataLoader, RecordFiles
from trainfeed.recordio import RecordWriter
from trainfeed.samples import Field, Schema, TypedCodec

ROOT = Path(__file__).parents[2]
SCHEMA = Schema((Field("id", "int64"), Field("x", "float32", (4,)), Field("label", "float32")))
NUM_SAMPLES = 1000
BATCH = 32
NUM_BATCHES = 32


def write(path):
    """Write the samples, whose label is the sum of ``x``."""
    codec, rng = TypedCodec(SCHEMA), np.random.default_rng(0)
    with RecordWriter(path, max_chunk_bytes=4096) as writer:
        for n in range(NUM_SAMPLES):
            x = rng.standard_normal(4, np.float32)
            writer.write(codec.encode({"id": n, "x": x, "label": x.sum()}))
    return path


def loader(path, rank=0, world_size=1, **options):
    options = {"shuffle": True, "seed": 7} | options
    return DataLoader(RecordFiles(path, SCHEMA), BATCH, rank=rank, world_size=world_size, **options)


def ids(batches):
    return [n for batch in batches for n in batch["id"].tolist()]


def order(path, epochs=1, of_step=0):
    """The ids in the order of a loader that nothing wraps, from a step of training on."""
    with loader(path) as plain:
        batches = [batch["id"].tolist() for _ in range(epochs) for batch in plain]
    return [n for batch in batches[of_step:] for n in batch]


def counts(*parts):
    """How often samples came: {1: 1000} is each of them once."""
    times = collections.Counter(n for part in parts for n in part)
    return dict(collections.Counter(times.values()))


def on_ranks(script, *arguments, num_ranks=2):
    """Run a file of this folder on ranks of torch.distributed; return what it printed."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(num_ranks), str(Path(__file__).with_name(script))]
    done = subprocess.run(
        [*command, *map(str, arguments)],
        env=os.environ
        | {
            "PYTHONPATH": f"{ROOT}:{ROOT / 'include'}",
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
