"""The scale of the loss, step by step against PaddlePaddle's operator ``update_loss_scaling``."""

import random

import numpy as np
import paddle
import pytest

from trainfeed.compat.plsc.settings import LossScale, MixedPrecision

STEPS = 60


def tensor(value, dtype):
    return paddle.to_tensor([value], dtype=dtype)


class Operator:
    """The state of PaddlePaddle: scale, good steps, bad steps."""

    def __init__(self, rules):
        self.rules = rules
        self.state = (
            tensor(rules.init_loss_scaling, "float32"),
            tensor(0, "int32"),
            tensor(0, "int32"),
        )

    def step(self, is_finite):
        rules = self.rules
        _, *self.state = paddle._C_ops.update_loss_scaling_(
            [tensor(1.0, "float32")],
            paddle.to_tensor([not is_finite]),
            *self.state,
            rules.incr_every_n_steps,
            rules.decr_every_n_nan_or_inf,
            rules.incr_ratio,
            rules.decr_ratio,
            False,
        )
        return tuple(value.numpy()[0] for value in self.state)


@pytest.mark.parametrize("seed", range(50))
def test_sixty_random_steps_give_the_state_of_the_operator(seed):
    """50 seeds: 3,000 steps, compared bit by bit after each."""
    drawn = random.Random(seed)
    rules = MixedPrecision(
        use_fp16=True,
        init_loss_scaling=drawn.choice([0.25, 1.0, 3.0, 4.0, 1024.0, 3e38]),
        incr_every_n_steps=drawn.randint(1, 5),
        decr_every_n_nan_or_inf=drawn.randint(1, 4),
        incr_ratio=drawn.choice([2.0, 1.5, 10.0]),
        decr_ratio=drawn.choice([0.5, 0.3, 0.9]),
    )
    ours, theirs = LossScale.first(rules), Operator(rules)
    for _ in range(STEPS):
        is_finite = drawn.random() < 0.6
        ours = ours.after(is_finite=is_finite)
        expected = theirs.step(is_finite)
        assert (ours.scale, ours.good_steps, ours.bad_steps) == expected
        assert type(ours.scale) is np.float32
