"""Networks for an ``Entry``, and the base class of custom ones."""

from trainfeed.compat.plsc.models.base_model import BaseModel

__all__ = ["BaseModel"]
