"""The scale of the loss, compared with a direct model of runs of good and bad steps."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfeed.compat.plsc.settings import LossScale, MixedPrecision

RULES = st.builds(
    MixedPrecision,
    use_fp16=st.just(True),
    init_loss_scaling=st.sampled_from([0.25, 1.0, 3.0, 1024.0, 3e38]),
    incr_every_n_steps=st.integers(1, 5),
    decr_every_n_nan_or_inf=st.integers(1, 4),
    incr_ratio=st.sampled_from([2.0, 1.5, 10.0]),
    decr_ratio=st.sampled_from([0.5, 0.3, 0.9]),
)


def scale_of_runs(rules, steps):
    """The scale after some steps: every n steps of a run of one kind change it once."""
    scale = np.float32(rules.init_loss_scaling)
    for is_finite, run in itertools.groupby(steps):
        length = len(list(run))
        for _ in range(length // rules.incr_every_n_steps if is_finite else 0):
            with np.errstate(over="ignore"):
                grown = scale * np.float32(rules.incr_ratio)
            scale = grown if np.isfinite(grown) else scale
        for _ in range(0 if is_finite else length // rules.decr_every_n_nan_or_inf):
            scale = max(np.float32(1), scale * np.float32(rules.decr_ratio))
    return scale


def run(rules, steps):
    scale = LossScale.first(rules)
    for is_finite in steps:
        scale = scale.after(is_finite=is_finite)
    return scale


@given(RULES, st.lists(st.booleans(), max_size=60))
def test_any_steps_give_the_scale_of_their_runs(rules, steps):
    assert run(rules, steps).scale == scale_of_runs(rules, steps)


def test_with_the_defaults_the_scale_doubles_with_the_2000th_good_step():
    rules = MixedPrecision(use_fp16=True)
    assert run(rules, [True] * 1999).scale == 1
    assert run(rules, [True] * 2000).scale == 2
    assert run(rules, [True] * 2000).good_steps == 0


def test_bad_steps_count_together_only_without_a_good_one_between():
    rules = MixedPrecision(use_fp16=True, init_loss_scaling=8.0)
    assert run(rules, [False, False]).scale == 4
    assert run(rules, [False, True, False]).scale == 8


def test_a_bad_step_ends_the_count_of_good_ones():
    rules = MixedPrecision(use_fp16=True, incr_every_n_steps=3)
    assert run(rules, [True, True, False, True]).scale == 1
    assert run(rules, [True, True, False, True, True, True]).scale == 2


def test_the_scale_stays_finite_and_at_least_1():
    rules = MixedPrecision(
        use_fp16=True, init_loss_scaling=3e38, incr_every_n_steps=1, decr_every_n_nan_or_inf=1
    )
    assert run(rules, [True] * 5).scale == np.float32(3e38)
    assert run(rules, [False] * 500).scale == 1


@pytest.mark.parametrize("is_finite", [True, False])
def test_a_static_scale_never_changes(is_finite):
    rules = MixedPrecision(
        use_fp16=True,
        init_loss_scaling=7.0,
        incr_every_n_steps=1,
        decr_every_n_nan_or_inf=1,
        use_dynamic_loss_scaling=False,
    )
    assert run(rules, [is_finite] * 5).scale == 7
