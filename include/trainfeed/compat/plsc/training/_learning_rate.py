"""The learning rate of a step: warm-up, then a rate that falls at given steps.

The rate is a function of the number of the step, so a training that continues needs no state of
it. The originals warmed up from ``lr`` to ``base_lr``: from a higher rate for global batches below
1,024, and not at all for 1,024. Their documentation describes a rate that grows from a small
value, which is what happens here.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainfeed.compat.plsc._settings import EntrySettings

__all__ = ["learning_rate", "steps_per_pass"]


def steps_per_pass(settings: EntrySettings) -> int:
    """Return the steps of a pass over ``train_image_num`` images, rounded up on each rank."""
    images_of_rank = -(-settings.train_image_num // settings.world_size)
    return -(-images_of_rank // settings.train_batch_size)


def learning_rate(settings: EntrySettings, step: int) -> float:
    """Return the learning rate of a step, counted from 0 over all passes."""
    warmup = settings.warmup_epochs * steps_per_pass(settings)
    if step < warmup:
        return settings.base_lr * (step + 1) / warmup
    return settings.base_lr * settings.lr_decay_factor ** bisect_right(settings.lr_steps, step)
