"""``fluid.initializer``: first values of parameters, described without the framework."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from trainfeed.compat._framework import not_offered, paddle

__all__ = ["Constant", "ConstantInitializer", "Normal", "Uniform", "Xavier"]

_LEAST: Final = sys.float_info.min


@dataclass(frozen=True)
class Constant:
    """One value.

    Attributes:
        value: The value.
    """

    value: float = 0.0

    def made(self) -> Any:
        """Return the initializer of Paddle."""
        return paddle().nn.initializer.Constant(self.value)


@dataclass(frozen=True)
class Normal:
    """Draws from a normal distribution.

    Attributes:
        loc: Mean.
        scale: Standard deviation.
        seed: Without effect: the seed of the training decides.
    """

    loc: float = 0.0
    scale: float = 1.0
    seed: int = 0

    def made(self) -> Any:
        """Return the initializer of Paddle."""
        return paddle().nn.initializer.Normal(self.loc, self.scale)


@dataclass(frozen=True)
class Uniform:
    """Draws from a uniform distribution.

    Attributes:
        low: Least value.
        high: Upper bound.
        seed: Without effect: the seed of the training decides.
    """

    low: float = -1.0
    high: float = 1.0
    seed: int = 0

    def made(self) -> Any:
        """Return the initializer of Paddle."""
        return paddle().nn.initializer.Uniform(self.low, self.high)


@dataclass(frozen=True)
class Xavier:
    """Draws whose variance depends on the number of inputs and outputs of a layer.

    Attributes:
        uniform: Whether the distribution is uniform; normal otherwise.
        fan_in: Number of inputs; None takes it from the shape of the parameter, 0 leaves it out.
        fan_out: Number of outputs; None takes it from the shape of the parameter, 0 leaves it out.
        seed: Without effect: the seed of the training decides.
    """

    uniform: bool = True
    fan_in: float | None = None
    fan_out: float | None = None
    seed: int = 0

    def made(self) -> Any:
        """Return the initializer of Paddle."""
        kinds = paddle().nn.initializer
        kind = kinds.XavierUniform if self.uniform else kinds.XavierNormal
        # Paddle 3 makes all values zero where a number is 0; the originals left it out of the sum.
        fans = (_LEAST if fan == 0 else fan for fan in (self.fan_in, self.fan_out))
        return kind(*fans)


ConstantInitializer: TypeAlias = Constant

__getattr__ = not_offered(
    "fluid.initializer",
    f"{', '.join(__all__)}; an initializer of paddle.nn.initializer is taken too",
)
