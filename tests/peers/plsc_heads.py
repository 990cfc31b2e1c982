"""One of two ranks: divided heads against whole ones, gradients, tops, and readers that differ.

``plsc_heads.py FOLDER`` writes what it found to ``FOLDER/<rank>.json``.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import paddle

from tests.peers import plsc_digits
from trainfeed.compat.plsc.classifier import Head, Ranks
from trainfeed.compat.plsc.settings import EntrySettings, LossType
from trainfeed.errors import ConfigError

FOLDER = Path(sys.argv[1])
EMB_DIM, NUM_CLASSES = 12, 23
# The ranks have different numbers of samples, and of classes.
COUNTS = [5, 3]


def head(kind, ranks):
    settings = EntrySettings(loss_type=LossType(kind), num_classes=NUM_CLASSES, scale=16.0)
    paddle.seed(3)
    # Names of parameters are free again in the block.
    with paddle.utils.unique_name.guard():
        return Head.made(replace(settings, world_size=ranks.world_size), ranks, EMB_DIM)


def difference(got, expected):
    assert got.shape == expected.shape
    return float((got - expected).abs().max())


def compared(kind, ranks):
    """Return the largest differences of a divided head from the whole one."""
    whole, divided = head(kind, Ranks(0, 1)), head(f"dist_{kind}", ranks)
    first, end = divided.classes
    rng = np.random.default_rng(5)
    all_rows = rng.standard_normal((sum(COUNTS), EMB_DIM)).astype(np.float32)
    all_labels = paddle.to_tensor(rng.integers(0, NUM_CLASSES, sum(COUNTS)))
    begin = ranks.first_row(COUNTS)
    mine = slice(begin, begin + COUNTS[ranks.rank])
    together = paddle.to_tensor(all_rows, stop_gradient=False)
    own = paddle.to_tensor(all_rows[mine], stop_gradient=False)
    expected = whole.backward(together, all_labels, [sum(COUNTS)])
    # What the heads get in a training is no leaf, but the result of a network.
    got = divided.backward(own * 1.0, all_labels[mine], COUNTS)
    found = {"loss": abs(got - expected), "embeddings": difference(own.grad, together.grad[mine])}
    for name, value in divided.parameters.items():
        other = whole.parameters[name]
        found[name] = difference(value, other[..., first:end])
        found[f"gradient of {name}"] = difference(value.grad, other.grad[..., first:end])
    logits = whole.logits(together, all_labels)[:, first:end]
    found["logits"] = difference(divided.logits(together, all_labels), logits)
    with paddle.no_grad():
        tops = [whole.top(together, [sum(COUNTS)], 5)[mine], divided.top(own, COUNTS, 5)]
    found["tops"] = float((tops[0] != tops[1]).sum())
    return found


def uneven(rank):
    """Return the error of a training in which one rank has a batch less."""
    made = plsc_digits.entry(FOLDER / "uneven", model=plsc_digits.PlainNet(), epochs=1)
    made.train_reader = plsc_digits.samples(0, plsc_digits.BATCH * (2 + rank))
    try:
        made.train()
    except ConfigError as error:
        return str(error)
    return "no error"


def curves(ranks):
    """Return the losses of two ranks of a network without batch statistics."""
    found = {}
    for loss in ("softmax", "dist_arcface"):
        made = plsc_digits.entry(FOLDER / loss, loss, plsc_digits.PlainNet(), epochs=1)
        made.set_train_image_num(2 * plsc_digits.BATCH * 6)
        made.train_reader = plsc_digits.samples(
            0, 2 * plsc_digits.BATCH * 6, ranks.rank, ranks.world_size
        )
        found[loss] = made.train().losses
    return found


made_ranks = Ranks(plsc_digits.Entry().settings.rank, 2)
made_ranks.connect()
(FOLDER / f"{made_ranks.rank}.json").write_text(
    json.dumps(
        {
            "heads": {kind: compared(kind, made_ranks) for kind in ("softmax", "arcface")},
            "uneven": uneven(made_ranks.rank),
            "curves": curves(made_ranks),
        }
    )
)
