"""TensorFlow over one process and over two workers: every sample once, and exact states."""

import json
import os
import re
import socket
import subprocess
import sys

import numpy as np
import pytest

from tests.peers import made
from trainfeed import adapters
from trainfeed.compat.paddle.loading import GeneratorLoader
from trainfeed.samples import Field, Schema


@pytest.mark.parametrize("taken", [1, 11])
def test_a_state_is_gone_on_with_exactly(path, taken):
    """TensorFlow would read a batch ahead by itself, and the state would be behind that."""
    with made.loader(path) as loader, made.loader(path) as other:
        data = adapters.tensorflow(loader)
        begun = [next(it)["id"].numpy().tolist() for it in [iter(data)] for _ in range(taken)]
        resumed = adapters.tensorflow(other)
        resumed.load_state_dict(data.state_dict())
        rest = [batch["id"].numpy().tolist() for batch in resumed]
    assert [n for batch in begun + rest for n in batch] == made.order(path)


def test_lists_of_arrays_get_the_names_of_a_schema():
    loader = GeneratorLoader.from_generator(capacity=2)
    loader.set_batch_generator(lambda: iter([[np.ones((2, 3), "f4"), np.arange(2)]] * 2))
    schema = Schema((Field("image", "float32", (3,)), Field("label", "int64")))
    data = adapters.tensorflow(loader, schema=schema)
    assert [batch["label"].numpy().tolist() for batch in data] == [[0, 1], [0, 1]]


@pytest.mark.parametrize("wiring", ["shares", "whole"])
def test_two_workers_of_a_strategy_get_every_sample_once(path, wiring):
    """Over shares, TensorFlow's own sharding would leave out every other batch of each."""
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = ",".join(str(server.getsockname()[1]) for server in taken)
    for server in taken:
        server.close()
    script = str(made.ROOT / "tests/peers/tensorflow_worker.py")
    workers = [
        subprocess.Popen(
            [sys.executable, script, str(rank), ports, str(path), wiring],
            env=os.environ | {"PYTHONPATH": f"{made.ROOT}:{made.ROOT / 'include'}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    told = [worker.communicate(timeout=540)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], told
    seen = [json.loads(re.search(r"^seen (.*)$", text, re.MULTILINE)[1]) for text in told]
    assert made.counts(*seen) == {1: made.NUM_SAMPLES}
