"""The network under construction: the parameters that calls of ``fluid.layers`` make and find.

The originals add operators to a program once. Here, the function that builds a network runs at
every step, and its calls find their parameters by name: the first ``fc`` has ``fc_0.w_0``, in
training as in a test, as in the originals' programs with ``unique_name.guard()``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from trainfeed.compat._framework import paddle
from trainfeed.errors import ConfigError

__all__ = ["Network", "current_network"]

_CURRENT: Final[ContextVar[Network | None]] = ContextVar("network", default=None)
# Counted by Paddle for each parameter that a layer of its own makes.
_PARAMETERS: Final = "_eager_param_base"


@dataclass
class Network:
    """The parameters and running statistics of one network.

    Attributes:
        parameters: Name → parameter, in the order of the first call.
        statistics: Name → running mean or variance of a batch norm, not trained.
    """

    parameters: dict[str, Any] = field(default_factory=dict)
    statistics: dict[str, Any] = field(default_factory=dict)
    _counts: Counter[str] = field(default_factory=Counter)
    _is_made: bool = False

    def make(self, build: Callable[[], Any]) -> Any:
        """Make the parameters: return what ``build`` returns, called once, without gradients.

        Raises:
            ConfigError: ``build`` makes parameters otherwise than by ``fluid.layers``.
        """
        with paddle().no_grad():
            built = self.call(build)
        for name, value in self.statistics.items():
            # The call has moved the statistics of its input into them.
            value.set_value(paddle().full_like(value, float(name.endswith(".w_2"))))
        self._is_made = True
        return built

    def call(self, build: Callable[[], Any]) -> Any:
        """Return what ``build`` returns; its layers use the parameters of this network.

        Raises:
            ConfigError: ``build`` makes parameters otherwise than by ``fluid.layers``, or other
                ones than at the first call.
        """
        self._counts.clear()
        before = len(self.parameters)
        with paddle().utils.unique_name.guard(), _as_current(self):
            built = build()
            made = paddle().base.unique_name.generator.ids.get(_PARAMETERS, 0)
        if made != len(self.parameters) - before:
            raise ConfigError(
                f"expected parameters made by fluid.layers only, got"
                f" {made - len(self.parameters) + before} made by other layers in build_network,"
                " which would be new at each step, and never trained; nothing was saved; use"
                " fluid.layers"
            )
        return built

    def name_of(self, kind: str, given: str | None = None) -> str:
        """Return the name of the next layer of a kind, such as ``fc_0``, unless one is given."""
        if given is not None:
            return given
        self._counts[kind] += 1
        return f"{kind}_{self._counts[kind] - 1}"

    def parameter(self, name: str, shape: Sequence[int], attributes: Any, initializer: Any) -> Any:
        """Return a parameter, made at the first call.

        Args:
            name: Name, unless ``attributes`` has one.
            shape: Shape; float32.
            attributes: A ``paddle.ParamAttr`` or None.
            initializer: Initializer, unless ``attributes`` has one.

        Raises:
            ConfigError: The parameter is new at a later call, or has another shape.
        """
        attributes = attributes or paddle().ParamAttr()
        name = attributes.name = attributes.name or name
        found = self.parameters.get(name)
        if found is None:
            self._require_unmade(name)
            found = self.parameters[name] = paddle().create_parameter(
                list(shape), "float32", attr=attributes, default_initializer=initializer
            )
        _require_shape(name, found, shape)
        return found

    def statistic(self, name: str, length: int, value: float) -> Any:
        """Return running statistics: a tensor of shape ``(length,)``, float32, at first ``value``.

        Raises:
            ConfigError: The tensor is new at a later call, or has another shape.
        """
        found = self.statistics.get(name)
        if found is None:
            self._require_unmade(name)
            found = self.statistics[name] = paddle().full([length], value, "float32")
        _require_shape(name, found, [length])
        return found

    def _require_unmade(self, name: str) -> None:
        if self._is_made:
            raise ConfigError(
                f"expected the layers of the first call of build_network, got the new parameter"
                f" {name}; the parameters were left as they are; make the same layers in the same"
                " order in training and in tests"
            )


def current_network() -> Network:
    """Return the network whose ``build_network`` is running.

    Raises:
        ConfigError: No network is being built.
    """
    if (network := _CURRENT.get()) is None:
        raise ConfigError(
            "expected a call of fluid.layers inside of build_network of a model, got one outside:"
            " nothing would train its parameters; derive from"
            " trainfeed.compat.plsc.models.base_model.BaseModel, and call the layers there"
        )
    return network


@contextmanager
def _as_current(network: Network) -> Iterator[None]:
    token = _CURRENT.set(network)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def _require_shape(name: str, found: Any, shape: Sequence[int]) -> None:
    if list(found.shape) != list(shape):
        raise ConfigError(
            f"expected {name} of shape {tuple(found.shape)}, as at the first call of"
            f" build_network, got {tuple(shape)}; make the same layers in the same order in"
            " training and in tests"
        )
