"""The calls of ``fluid.layers`` that have no parameters."""

from __future__ import annotations

from typing import Any, Final

from trainfeed.compat._framework import paddle
from trainfeed.errors import ConfigError

__all__ = ["activated", "dropout", "elementwise_add", "pool2d", "relu"]

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
