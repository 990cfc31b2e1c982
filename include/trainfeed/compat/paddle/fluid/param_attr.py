"""``fluid.param_attr``: name, first values and training of a parameter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trainfeed.compat._framework import not_offered, paddle
from trainfeed.errors import ConfigError

__all__ = ["ParamAttr", "framework_attributes", "framework_form"]


@dataclass(frozen=True)
class ParamAttr:
    """Attributes of a parameter.

    Attributes:
        name: Name; None for one by kind and number of the layer. Layers with one name share a
            parameter.
        initializer: Of ``fluid.initializer`` or ``paddle.nn.initializer``; None for the default
            of the layer.
        learning_rate: Factor of the learning rate.
        regularizer: Of ``fluid.regularizer`` or ``paddle.regularizer``; None for that of the
            optimizer.
        trainable: Whether the parameter is trained.
    """

    name: str | None = None
    initializer: Any = None
    learning_rate: float = 1.0
    regularizer: Any = None
    trainable: bool = True

    def made(self) -> Any:
        """Return the attributes as a ``paddle.ParamAttr``."""
        return paddle().ParamAttr(
            name=self.name,
            initializer=framework_form(self.initializer),
            learning_rate=self.learning_rate,
            regularizer=framework_form(self.regularizer),
            trainable=self.trainable,
        )


def framework_attributes(given: Any) -> Any:
    """Return attributes as a new ``paddle.ParamAttr``; None for None.

    Raises:
        ConfigError: ``given`` is neither None, a name, an initializer nor attributes.
    """
    if given is None:
        return None
    if isinstance(given, str):
        return ParamAttr(name=given).made()
    if isinstance(given, ParamAttr):
        return given.made()
    if isinstance(given, paddle().ParamAttr):
        kept = ("name", "initializer", "learning_rate", "regularizer", "trainable")
        return paddle().ParamAttr(**{name: getattr(given, name) for name in kept})
    if hasattr(given, "made") or isinstance(given, paddle().nn.initializer.Initializer):
        return ParamAttr(initializer=given).made()
    raise ConfigError(
        f"expected None, a name, an initializer or a ParamAttr for a parameter, got {given!r}"
    )


def framework_form(given: Any) -> Any:
    """Return the framework's form of an initializer or a regularizer of ``fluid``."""
    return given.made() if hasattr(given, "made") else given


__getattr__ = not_offered("fluid.param_attr", "ParamAttr")
