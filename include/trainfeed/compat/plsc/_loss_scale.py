"""The scale of the loss in mixed precision: good steps in a row let it grow, bad ones shrink it.

PaddlePaddle's operator ``update_loss_scaling`` is the model: a good step has finite gradients, a
bad step has an infinity or a NaN among them, and a step of one kind ends the count of the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from trainfeed.compat.plsc._settings import MixedPrecision

__all__ = ["LossScale"]

_LEAST: Final = np.float32(1)


@dataclass(frozen=True)
class LossScale:
    """The scale before a step; ``after`` returns the scale before the next step.

    Attributes:
        rules: Parameters of the growth and the shrinking.
        scale: Factor of the loss, computed in float32 as the operator does.
        good_steps: Good steps in a row since the last change or bad step.
        bad_steps: Bad steps in a row since the last change or good step.
    """

    rules: MixedPrecision
    scale: np.float32
    good_steps: int = 0
    bad_steps: int = 0

    @classmethod
    def first(cls, rules: MixedPrecision) -> LossScale:
        """Return the scale before the first step."""
        return cls(rules, np.float32(rules.init_loss_scaling))

    def after(self, *, is_finite: bool) -> LossScale:
        """Return the scale after a step.

        Args:
            is_finite: Whether every gradient of the step is finite.
        """
        if not self.rules.use_dynamic_loss_scaling:
            return self
        return self._after_good() if is_finite else self._after_bad()

    def _after_good(self) -> LossScale:
        good = self.good_steps + 1
        if good < self.rules.incr_every_n_steps:
            return replace(self, good_steps=good, bad_steps=0)
        with np.errstate(over="ignore"):
            grown = self.scale * np.float32(self.rules.incr_ratio)
        return LossScale(self.rules, grown if np.isfinite(grown) else self.scale)

    def _after_bad(self) -> LossScale:
        bad = self.bad_steps + 1
        if bad < self.rules.decr_every_n_nan_or_inf:
            return replace(self, good_steps=0, bad_steps=bad)
        shrunk = self.scale * np.float32(self.rules.decr_ratio)
        return LossScale(self.rules, max(_LEAST, shrunk))
