"""``fluid.regularizer``: the penalty on the size of parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

from trainfeed.compat._framework import paddle

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


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"fluid.regularizer.{name} is not offered: trainfeed has L2Decay")
