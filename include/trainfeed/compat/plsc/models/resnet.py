"""The residual networks of PLSC, as its documentation shows them.

A block of the network of 50 layers has two convolutions of 3 by 3, so 50 layers need the depths
3, 4, 14, 3; the classic ResNet50 has blocks of three, and 6 in the place of 14. The deeper
networks have three convolutions in a block, as the classic ones do.
"""

from __future__ import annotations

from typing import Any, Final

from trainfeed.compat.paddle import fluid
from trainfeed.compat.plsc.models.base_model import BaseModel
from trainfeed.errors import ConfigError

__all__ = ["ResNet", "ResNet50", "ResNet101", "ResNet152"]

_DEPTHS: Final = {50: (3, 4, 14, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
_NUM_FILTERS: Final = (64, 128, 256, 512)
_EPSILON: Final = 2e-05


class ResNet(BaseModel):
    """A residual network that ends with an embedding.

    Args:
        layers: 50, 101 or 152.
        emb_dim: Length of the embedding.

    Raises:
        ConfigError: There is no network of that many layers.
    """

    def __init__(self, layers: int = 50, emb_dim: int = 512) -> None:
        super().__init__()
        if layers not in _DEPTHS:
            raise ConfigError(f"expected one of {sorted(_DEPTHS)} layers for ResNet, got {layers}")
        self.layers = layers
        self.emb_dim = emb_dim

    def build_network(self, input: Any, label: Any, is_train: bool) -> Any:  # noqa: A002, ARG002
        """Build the network; see ``BaseModel``."""
        values = self.conv_bn_layer(input, 64, 3, pad=1, act="prelu", is_train=is_train)
        for depth, num_filters in zip(_DEPTHS[self.layers], _NUM_FILTERS, strict=True):
            for block in range(depth):
                stride = 2 if block == 0 else 1
                values = self.bottleneck_block(values, num_filters, stride, is_train=is_train)
        values = _normalised(values, is_train)
        values = fluid.layers.dropout(
            values,
            dropout_prob=0.4,
            dropout_implementation="upscale_in_train",
            is_test=not is_train,
        )
        values = fluid.layers.fc(
            values,
            size=self.emb_dim,
            param_attr=_xavier(),
            bias_attr=fluid.ParamAttr(initializer=fluid.initializer.Constant()),
        )
        return _normalised(values, is_train)

    def conv_bn_layer(  # noqa: PLR0913 - the original's arguments
        self,
        input: Any,  # noqa: A002 - the original's name
        num_filters: int,
        filter_size: int,
        stride: int = 1,
        pad: int = 0,
        groups: int = 1,
        *,
        is_train: bool = True,
        act: str | None = None,
    ) -> Any:
        """Convolve and normalise; ``act`` is None, ``prelu`` or an activation of a layer."""
        values = fluid.layers.conv2d(
            input,
            num_filters,
            filter_size,
            stride=stride,
            padding=pad,
            groups=groups,
            param_attr=_xavier(),
            bias_attr=False,
        )
        if act != "prelu":
            return _normalised(values, is_train, act)
        slope = fluid.ParamAttr(initializer=fluid.initializer.Constant(0.25))
        return fluid.layers.prelu(_normalised(values, is_train), mode="all", param_attr=slope)

    def bottleneck_block(
        self,
        input: Any,  # noqa: A002 - the original's name
        num_filters: int,
        stride: int,
        *,
        is_train: bool,
    ) -> Any:
        """Add the convolutions of a block to its input."""
        values = _normalised(input, is_train)
        if self.layers < 101:
            values = self._step(values, num_filters, 3, 1, is_train, "prelu")
            values = self._step(values, num_filters, 3, stride, is_train)
        else:
            values = self._step(values, num_filters // 4, 1, 1, is_train, "prelu")
            values = self._step(values, num_filters // 4, 3, 1, is_train, "prelu")
            values = self._step(values, num_filters, 1, stride, is_train)
        short = self.shortcut(input, num_filters, stride, is_train=is_train)
        return fluid.layers.elementwise_add(short, values)

    def shortcut(
        self,
        input: Any,  # noqa: A002 - the original's name
        ch_out: int,
        stride: int,
        *,
        is_train: bool,
    ) -> Any:
        """Return the input, in the shape that a block gives."""
        if int(input.shape[1]) == ch_out and stride == 1:
            return input
        return self.conv_bn_layer(input, ch_out, 1, stride, is_train=is_train)

    def _step(
        self,
        values: Any,
        num_filters: int,
        size: int,
        stride: int,
        is_train: bool,
        act: str | None = None,
    ) -> Any:
        pad = size // 2
        return self.conv_bn_layer(
            values, num_filters, size, stride, pad, is_train=is_train, act=act
        )


def ResNet50(emb_dim: int = 512) -> ResNet:  # noqa: N802 - the original's name
    """Return the network of 50 layers."""
    return ResNet(50, emb_dim)


def ResNet101(emb_dim: int = 512) -> ResNet:  # noqa: N802 - the original's name
    """Return the network of 101 layers."""
    return ResNet(101, emb_dim)


def ResNet152(emb_dim: int = 512) -> ResNet:  # noqa: N802 - the original's name
    """Return the network of 152 layers."""
    return ResNet(152, emb_dim)


def _normalised(values: Any, is_train: bool, act: str | None = None) -> Any:
    return fluid.layers.batch_norm(values, act=act, epsilon=_EPSILON, is_test=not is_train)


def _xavier() -> fluid.ParamAttr:
    return fluid.ParamAttr(initializer=fluid.initializer.Xavier(uniform=False, fan_in=0.0))
