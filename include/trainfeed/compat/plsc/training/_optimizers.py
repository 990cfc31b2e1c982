"""The optimizer of a training: made when the parameters are there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainfeed.compat._framework import paddle
from trainfeed.compat.paddle.fluid.optimizer import Momentum, Optimizer
from trainfeed.compat.paddle.fluid.regularizer import L2Decay

if TYPE_CHECKING:
    from trainfeed.compat.plsc._settings import EntrySettings

__all__ = ["advance_scheduler", "made_optimizer"]


def made_optimizer(settings: EntrySettings, parameters: list[Any]) -> Any:
    """Return Paddle's optimizer: that of the settings, or momentum with decay of the weights."""
    given = settings.optimizer
    if given is None:
        given = Momentum(settings.base_lr, 0.9, regularization=L2Decay(5e-4))
    return given.made(parameters) if isinstance(given, Optimizer) else given(parameters)


def advance_scheduler(optimizer: Any) -> None:
    """Let the user's scheduler, if there is one, go to the next step."""
    schedule = getattr(optimizer, "_learning_rate", None)
    if isinstance(schedule, paddle().optimizer.lr.LRScheduler):
        schedule.step()
