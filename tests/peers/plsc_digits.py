"""Real digits of 8 by 8 points, a small network for them, and entries over both.

As a program, one rank of trainings: ``plsc_digits.py FOLDER LOSS,… EPOCHS [DIES_AT]`` continues the
newest checkpoint in ``FOLDER/LOSS/saved`` for each head, and writes losses and accuracy to
``FOLDER/LOSS/<rank>.json``.
"""

import json
import os
import signal
import sys
from pathlib import Path

import numpy as np

from trainfeed.compat.paddle import fluid
from trainfeed.compat.plsc.entry import Entry
from trainfeed.compat.plsc.models import BaseModel

ROOT = Path(__file__).parents[2]
# 64 points from 0 to 16, and the digit, in each row.
ROWS = np.loadtxt(ROOT / "data/scikit-learn/sklearn/datasets/data/digits.csv.gz", delimiter=",")
POINTS = ROWS[:, :64].reshape(-1, 8, 8)
IMAGES = (POINTS[:, None] / 8 - 1).astype(np.float32)
LABELS = ROWS[:, 64].astype(int)
NUM_TRAIN = 1400
BATCH = 50
EMB_DIM = 32


class SmallNet(BaseModel):
    """Two convolutions and an embedding, by the calls of the original's networks."""

    emb_dim = EMB_DIM

    def build_network(self, input, label, is_train):  # noqa: A002, ARG002
        layers, is_test = fluid.layers, not is_train
        values = layers.conv2d(input, 16, 3, padding=1, bias_attr=False)
        values = layers.batch_norm(values, act="relu", is_test=is_test)
        values = layers.pool2d(values, 2, "max", 2)
        values = layers.conv2d(values, 32, 3, padding=1, bias_attr=False)
        values = layers.prelu(layers.batch_norm(values, is_test=is_test), mode="all")
        values = layers.dropout(values, 0.2, is_test, dropout_implementation="upscale_in_train")
        return layers.batch_norm(layers.fc(values, self.emb_dim), is_test=is_test)


class PlainNet(BaseModel):
    """A network without statistics of its batch: two ranks train as one with both batches."""

    emb_dim = EMB_DIM

    def build_network(self, input, label, is_train):  # noqa: A002, ARG002
        hidden = fluid.layers.fc(input, 64, act="tanh")
        return fluid.layers.fc(hidden, self.emb_dim, act="tanh")


def samples(first, end, rank=0, world_size=1):
    """Return a reader of every ``world_size``-th batch, so that ranks share the steps of one."""

    def read():
        for n in range(first, end):
            if (n - first) // BATCH % world_size == rank:
                yield IMAGES[n], int(LABELS[n])

    return read


def entry(folder, loss="softmax", model=None, epochs=3):
    made = Entry()
    made.set_model(model or SmallNet())
    made.set_image_shape([1, 8, 8])
    made.set_class_num(10)
    made.set_loss_type(loss)
    made.set_train_batch_size(BATCH)
    made.set_train_image_num(NUM_TRAIN)
    made.set_train_epochs(epochs)
    made.set_warmup_epochs(1)
    made.lr, made.scale, made.margin = 1.0, 16.0, 0.3
    made.set_model_save_dir(str(folder / "saved"))
    settings = made.settings
    made.train_reader = samples(0, NUM_TRAIN, settings.rank, settings.world_size)
    made.test_reader = samples(NUM_TRAIN, len(LABELS))
    return made


def ends_at(reader, sample):
    """Return a reader that ends its process, as a machine does, before a sample."""
    read = 0

    def samples_before():
        nonlocal read
        for each in reader():
            if read == sample:
                os.kill(os.getpid(), signal.SIGKILL)
            read += 1
            yield each

    return samples_before


def train(folder, loss, epochs, dies_at):
    made = entry(folder, loss, epochs=epochs)
    # The folder itself may have been made by the other rank, which began earlier.
    if any((folder / "saved").glob("*/checkpoint.json")):
        made.set_checkpoint_dir(str(folder / "saved"))
    rank = made.settings.rank
    if dies_at and rank == made.settings.world_size - 1:
        made.train_reader = ends_at(made.train_reader, dies_at)
    report = made.train()
    said = {"losses": report.losses, "accuracies": dict(report.accuracies)}
    (folder / f"{rank}.json").write_text(json.dumps(said))


def main(folder, losses, epochs, dies_at=0):
    for loss in losses.split(","):
        train(Path(folder) / loss, loss, int(epochs), int(dies_at))


if __name__ == "__main__":
    main(*sys.argv[1:])
