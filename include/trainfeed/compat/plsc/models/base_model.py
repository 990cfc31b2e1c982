"""The base class of networks that ``Entry.set_model`` takes."""

from __future__ import annotations

from typing import Any

from trainfeed.errors import ConfigError

__all__ = ["BaseModel", "require_network"]


class BaseModel:
    """Base class of networks: derive from it and override ``build_network``.

    Attributes:
        emb_dim: Length of the embedding that the network returns.
    """

    emb_dim: int = 512

    def build_network(self, input: Any, label: Any, is_train: bool) -> Any:  # noqa: A002, ARG002
        """Build the network with ``fluid.layers``, and return the embedding.

        The method runs at every step; the layers find their parameters by kind and number, so
        each call must make the same layers in the same order.

        Args:
            input: Images, float32 of shape ``(n, *image_shape)``.
            label: Labels, int64 of shape ``(n, 1)``; zeros in a prediction.
            is_train: Whether this is a step of a training.

        Returns:
            Float32 of shape ``(n, emb_dim)``.

        Raises:
            ConfigError: The class does not override the method.
        """
        raise ConfigError(
            f"expected {type(self).__name__} to override build_network(self, input, label,"
            " is_train), got the method of BaseModel; nothing was trained"
        )


def require_network(model: BaseModel) -> None:
    """Refuse a model without a network.

    Raises:
        ConfigError: The class of the model does not override ``build_network``.
    """
    if type(model).build_network is BaseModel.build_network:
        BaseModel.build_network(model, None, None, False)
