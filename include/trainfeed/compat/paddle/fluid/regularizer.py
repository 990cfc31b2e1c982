"""``fluid.regularizer``: the penalty on the size of parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from trainfeed.compat._framework import not_offered, paddle

__all__ = ["L2Decay", "L2DecayRegularizer"]


@dataclass(frozen=True)
class L2Decay:
    """Adds ``regularization_coeff`` times a parameter to its gradient.

    Attributes:
        regularization_coeff: The factor.
    """

    regularization_coeff: float = 0.0

    def made(self) -> Any:
        """Return the regularizer of Paddle."""
        return paddle().regularizer.L2Decay(self.regularization_coeff)


L2DecayRegularizer: TypeAlias = L2Decay

__getattr__ = not_offered("fluid.regularizer", "L2Decay")
