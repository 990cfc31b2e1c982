"""The network under construction: its parameters, and calls of ``fluid.layers`` without any."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from trainfeed.compat._framework import paddle
from trainfeed.errors import ConfigError

# --- The network under construction: the parameters that calls of ``fluid.layers`` make and find

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


# --- The calls of ``fluid.layers`` that have no parameters

_ACTS: Final = ("relu", "sigmoid", "softmax", "tanh")
_SCALING: Final = {
    "downgrade_in_infer": "downscale_in_infer",
    "upscale_in_train": "upscale_in_train",
}


def dropout(
    x: Any,
    dropout_prob: float,
    is_test: bool = False,
    dropout_implementation: str = "downgrade_in_infer",
) -> Any:
    """Set values to zero at random, in training only.

    Args:
        x: Values, float32.
        dropout_prob: Probability of a zero.
        is_test: Whether this is a test.
        dropout_implementation: ``downgrade_in_infer`` scales the values down in a test,
            ``upscale_in_train`` scales the remaining ones up in training.

    Raises:
        ConfigError: ``dropout_implementation`` is unknown.
    """
    if dropout_implementation not in _SCALING:
        raise ConfigError(
            f"expected one of {', '.join(_SCALING)} for dropout_implementation, got"
            f" {dropout_implementation!r}"
        )
    mode = _SCALING[dropout_implementation]
    return paddle().nn.functional.dropout(x, dropout_prob, training=not is_test, mode=mode)


def relu(x: Any) -> Any:
    """Set negative values to zero."""
    return paddle().nn.functional.relu(x)


def pool2d(
    input: Any,  # noqa: A002 - the original's name
    pool_size: int | tuple[int, int] = -1,
    pool_type: str = "max",
    pool_stride: int | tuple[int, int] = 1,
    pool_padding: int | tuple[int, int] = 0,
    global_pooling: bool = False,
) -> Any:
    """Take maximum or mean of rectangles of each channel.

    Args:
        input: Images of shape ``(n, channels, height, width)``, float32.
        pool_size: Size of a rectangle, or height and width.
        pool_type: ``max`` or ``avg``.
        pool_stride: Step, or steps downwards and sideways.
        pool_padding: Border around an image.
        global_pooling: Whether a rectangle is a whole image; sizes are without effect then.

    Raises:
        ConfigError: ``pool_type`` is another one, or there is no size.
    """
    if pool_type not in {"max", "avg"}:
        raise ConfigError(f"expected pool_type 'max' or 'avg' for pool2d, got {pool_type!r}")
    functional = paddle().nn.functional
    if global_pooling:
        return getattr(functional, f"adaptive_{pool_type}_pool2d")(input, 1)
    if pool_size == -1:
        raise ConfigError("expected pool_size or global_pooling=True for pool2d, got neither")
    pool = getattr(functional, f"{pool_type}_pool2d")
    return pool(input, pool_size, pool_stride, pool_padding)


def elementwise_add(x: Any, y: Any, act: str | None = None) -> Any:
    """Add two tensors of one shape.

    Raises:
        ConfigError: The shapes differ, or ``act`` is unknown.
    """
    if list(x.shape) != list(y.shape):
        raise ConfigError(
            f"expected equal shapes for elementwise_add, got {tuple(x.shape)} and {tuple(y.shape)}"
        )
    return activated(x + y, act)


def activated(values: Any, act: str | None) -> Any:
    """Return values after an activation; None for none.

    Raises:
        ConfigError: The activation is unknown.
    """
    if act is None:
        return values
    if act not in _ACTS:
        raise ConfigError(f"expected act to be None or one of {', '.join(_ACTS)}, got {act!r}")
    return getattr(paddle().nn.functional, act)(values)
