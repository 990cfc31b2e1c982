"""One of two workers of a strategy of TensorFlow; prints the samples that arrive at it."""

import json
import os
import sys

_, rank, ports, path, wiring = sys.argv
os.environ["TF_CONFIG"] = json.dumps(
    {
        "cluster": {"worker": [f"127.0.0.1:{port}" for port in ports.split(",")]},
        "task": {"type": "worker", "index": int(rank)},
    }
)
import tensorflow as tf  # noqa: E402 - the strategy reads the environment

strategy = tf.distribute.MultiWorkerMirroredStrategy()

from tests.peers import made  # noqa: E402 - TensorFlow wants its strategy first
from trainfeed import adapters  # noqa: E402

with made.loader(path, int(rank), 2) if wiring == "shares" else made.loader(path) as loader:
    data = strategy.experimental_distribute_dataset(adapters.tensorflow(loader))
    parts = (part for batch in data for part in strategy.experimental_local_results(batch["id"]))
    sys.stdout.write(f"seen {json.dumps([n for part in parts for n in part.numpy().tolist()])}\n")
