"""The learning rate of a step, against the rule written out by hand."""

from trainfeed.compat.plsc.classifier import learning_rate, steps_per_pass
from trainfeed.compat.plsc.settings import EntrySettings


def test_the_rate_is_scaled_by_the_batch_of_all_ranks():
    assert learning_rate(EntrySettings(world_size=8), 0) == 0.1
    assert learning_rate(EntrySettings(world_size=2, train_batch_size=64), 0) == 0.1 * 128 / 1024


def test_the_rate_falls_at_each_boundary():
    settings = EntrySettings(world_size=8, lr_steps=(3, 5), lr_decay_factor=0.5)
    assert [learning_rate(settings, step) for step in range(7)] == [
        0.1, 0.1, 0.1, 0.05, 0.05, 0.025, 0.025,
    ]  # fmt: skip


def test_the_rate_grows_evenly_during_the_first_passes():
    settings = EntrySettings(world_size=8, warmup_epochs=2, train_image_num=1030)
    assert steps_per_pass(settings) == 2  # 129 images of a rank, 128 in a batch
    rates = [learning_rate(settings, step) for step in range(6)]
    assert rates == [0.025, 0.05, 0.1 * 3 / 4, 0.1, 0.1, 0.1]
