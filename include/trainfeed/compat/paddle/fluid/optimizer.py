"""``fluid.optimizer``: optimizers that are described before any parameter exists.

Paddle's own optimizers need their parameters when they are made; a script sets its optimizer
before its network is built.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

from trainfeed.compat._framework import not_offered, paddle
from trainfeed.compat.paddle.fluid.param_attr import framework_form

__all__ = [
    "SGD",
    "Adam",
    "AdamOptimizer",
    "Momentum",
    "MomentumOptimizer",
    "Optimizer",
    "SGDOptimizer",
]


@dataclass(frozen=True)
class Optimizer(ABC):
    """Base class of the optimizers.

    Attributes:
        learning_rate: A number, or a scheduler of ``paddle.optimizer.lr``, which steps after each
            step of the training.
        regularization: Penalty of parameters without one of their own; None for none.
        grad_clip: Clipping of gradients of ``paddle.nn``; None for none. Each rank clips its own
            part of a divided head.
    """

    learning_rate: Any = 0.001
    regularization: Any = field(default=None, kw_only=True)
    grad_clip: Any = field(default=None, kw_only=True)

    def made(self, parameters: Sequence[Any]) -> Any:
        """Return the optimizer of Paddle over parameters."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        given["weight_decay"] = framework_form(given.pop("regularization"))
        return self._kind()(parameters=list(parameters), **given)

    @abstractmethod
    def _kind(self) -> Any:
        """Return the class of ``paddle.optimizer``, which takes the fields by their names."""


@dataclass(frozen=True)
class SGD(Optimizer):
    """Plain gradient descent."""

    def _kind(self) -> Any:
        return paddle().optimizer.SGD


@dataclass(frozen=True)
class Momentum(Optimizer):
    """Gradient descent with momentum.

    Attributes:
        momentum: Factor of the velocity, from 0 to 1.
        use_nesterov: Whether the momentum is Nesterov's.
    """

    momentum: float = 0.9
    use_nesterov: bool = field(default=False, kw_only=True)

    def _kind(self) -> Any:
        return paddle().optimizer.Momentum


@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam.

    Attributes:
        beta1: Decay of the first moment.
        beta2: Decay of the second moment.
        epsilon: Added to the denominator.
    """

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-08

    def _kind(self) -> Any:
        return paddle().optimizer.Adam


SGDOptimizer: TypeAlias = SGD
MomentumOptimizer: TypeAlias = Momentum
AdamOptimizer: TypeAlias = Adam

__getattr__ = not_offered(
    "fluid.optimizer",
    "SGD, Momentum and Adam; a function from parameters to an optimizer of paddle.optimizer is"
    " taken too",
)
