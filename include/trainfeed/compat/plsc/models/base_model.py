"""The base class of networks that ``Entry.set_model`` takes."""

from __future__ import annotations

from typing import Any

__all__ = ["BaseModel"]


class BaseModel:
    """Base class of networks: derive from it and override ``build_network``.

    Attributes:
        emb_dim: Length of the embedding that the network returns.
    """

    emb_dim: int = 512

    def build_network(self, input: Any, label: Any, is_train: bool) -> Any:  # noqa: A002
        """Build the network, and return its embedding of shape ``(batch, emb_dim)``."""
        raise NotImplementedError
