"""What every part of a ``dataset.yaml`` has in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["Part"]


class Part(BaseModel):
    """Frozen, strict, and closed: an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
