"""``fluid.layers``: the calls with which the networks of PLSC are written, over ``paddle.nn``.

Parameters have the originals' names (``conv2d_0.w_0``) and first values, and belong to the network
that is being built; see ``fluid.Network``. Arguments that only choose a program of the originals
are not offered.
"""

from __future__ import annotations

from typing import Any

from trainfeed.compat._framework import not_offered, paddle
from trainfeed.compat.paddle.fluid.network import (
    activated,
    current_network,
    dropout,
    elementwise_add,
    pool2d,
    relu,
)
from trainfeed.compat.paddle.fluid.param_attr import framework_attributes
from trainfeed.errors import ConfigError

__all__ = [
    "batch_norm",
    "conv2d",
    "dropout",
    "elementwise_add",
    "fc",
    "pool2d",
    "prelu",
    "relu",
]


def conv2d(  # noqa: PLR0913, PLR0917 - the original's arguments
    input: Any,  # noqa: A002 - the original's name
    num_filters: int,
    filter_size: int | tuple[int, int],
    stride: int | tuple[int, int] = 1,
    padding: int | tuple[int, int] = 0,
    dilation: int | tuple[int, int] = 1,
    groups: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    name: str | None = None,
) -> Any:
    """Convolve images of shape ``(n, channels, height, width)``.

    Args:
        input: The images, float32.
        num_filters: Channels of the result.
        filter_size: Size of a filter, or height and width.
        stride: Step, or steps downwards and sideways.
        padding: Zeros around an image.
        dilation: Distance of the points of a filter.
        groups: Number of groups of channels; None for 1.
        param_attr: Attributes of the filters.
        bias_attr: Attributes of the bias; False for none.
        act: Activation after it; None for none.
        name: Name of the layer; None for ``conv2d_<number>``.

    Raises:
        ConfigError: The channels are not a multiple of the groups, or ``act`` is unknown.
    """
    height, width = _pair(filter_size)
    channels, groups = int(input.shape[1]), groups or 1
    if channels % groups or num_filters % groups:
        raise ConfigError(
            f"expected channels and filters that are multiples of groups={groups} for conv2d, got"
            f" {channels} channels and {num_filters} filters"
        )
    network = current_network()
    named = network.name_of("conv2d", name)
    shape = [int(num_filters), channels // groups, height, width]
    deviation = (2.0 / (height * width * channels)) ** 0.5
    weight = network.parameter(
        f"{named}.w_0",
        shape,
        framework_attributes(param_attr),
        paddle().nn.initializer.Normal(0.0, deviation),
    )
    bias = _bias(f"{named}.b_0", [int(num_filters)], bias_attr)
    sizes = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return activated(paddle().nn.functional.conv2d(input, weight, bias, **sizes), act)


def batch_norm(  # noqa: PLR0913, PLR0917 - the original's arguments
    input: Any,  # noqa: A002 - the original's name
    act: str | None = None,
    is_test: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
) -> Any:
    """Normalise each channel by mean and variance of the batch, in a test by the running ones.

    Args:
        input: Values of shape ``(n, channels, …)``, float32.
        act: Activation after it; None for none.
        is_test: Whether the running statistics are used, and left as they are.
        momentum: Share of the old running statistics that stays at each step.
        epsilon: Added to the variance.
        param_attr: Attributes of the scale.
        bias_attr: Attributes of the shift.
        name: Name of the layer; None for ``batch_norm_<number>``.

    Raises:
        ConfigError: ``act`` is unknown.
    """
    network = current_network()
    named = network.name_of("batch_norm", name)
    channels, constant = int(input.shape[1]), paddle().nn.initializer.Constant
    scale, shift = (
        network.parameter(
            f"{named}.{end}", [channels], framework_attributes(given), constant(value)
        )
        for end, given, value in (("w_0", param_attr, 1.0), ("b_0", bias_attr, 0.0))
    )
    normalised = paddle().nn.functional.batch_norm(
        input,
        network.statistic(f"{named}.w_1", channels, 0.0),
        network.statistic(f"{named}.w_2", channels, 1.0),
        weight=scale,
        bias=shift,
        training=not is_test,
        momentum=momentum,
        epsilon=epsilon,
    )
    return activated(normalised, act)


def fc(  # noqa: PLR0913, PLR0917 - the original's arguments
    input: Any,  # noqa: A002 - the original's name
    size: int,
    num_flatten_dims: int = 1,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    name: str | None = None,
) -> Any:
    """Multiply by a matrix, and add a bias.

    Args:
        input: Values, float32.
        size: Length of the last dimension of the result.
        num_flatten_dims: Number of leading dimensions that stay; the others become one.
        param_attr: Attributes of the matrix.
        bias_attr: Attributes of the bias; False for none.
        act: Activation after it; None for none.
        name: Name of the layer; None for ``fc_<number>``.

    Raises:
        ConfigError: ``act`` is unknown.
    """
    network = current_network()
    named = network.name_of("fc", name)
    rows = paddle().flatten(input, num_flatten_dims)
    shape, default = [int(rows.shape[-1]), int(size)], paddle().nn.initializer.XavierUniform()
    weight = network.parameter(f"{named}.w_0", shape, framework_attributes(param_attr), default)
    bias = _bias(f"{named}.b_0", [int(size)], bias_attr)
    return activated(paddle().nn.functional.linear(rows, weight, bias), act)


def prelu(x: Any, mode: str, param_attr: Any = None, name: str | None = None) -> Any:
    """Multiply negative values by a slope that is trained.

    Args:
        x: Values of shape ``(n, channels, …)``, float32.
        mode: ``all`` for one slope, ``channel`` for one for each channel.
        param_attr: Attributes of the slope; 0.25 at first by default.
        name: Name of the layer; None for ``prelu_<number>``.

    Raises:
        ConfigError: ``mode`` is another one.
    """
    if mode not in {"all", "channel"}:
        raise ConfigError(f"expected mode 'all' or 'channel' for prelu, got {mode!r}")
    network = current_network()
    slope = network.parameter(
        f"{network.name_of('prelu', name)}.w_0",
        [1 if mode == "all" else int(x.shape[1])],
        framework_attributes(param_attr),
        paddle().nn.initializer.Constant(0.25),
    )
    return paddle().nn.functional.prelu(x, slope)


def _bias(name: str, shape: list[int], attributes: Any) -> Any:
    """Return a bias, at first zero; None where ``attributes`` is False."""
    if attributes is False:
        return None
    zero = paddle().nn.initializer.Constant(0.0)
    return current_network().parameter(name, shape, framework_attributes(attributes), zero)


def _pair(size: int | tuple[int, int]) -> tuple[int, int]:
    height, width = (size, size) if isinstance(size, int) else size
    return int(height), int(width)


__getattr__ = not_offered(
    "fluid.layers",
    f"{', '.join(__all__)}; the operators of paddle.nn.functional, which have no parameters, work"
    " inside of build_network too",
)
