"""A job that imports no module of trainfeed: the modules of its worker were there before."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

__all__ = ["ModulesAtHand"]


@dataclass(frozen=True)
class ModulesAtHand:
    """Tells which of some modules the worker had imported before the job came."""

    names: tuple[str, ...]
    label = "modules at hand"

    def run(self, _desk: Any) -> dict[str, Any]:
        """Return ``names``, those of the modules that were there."""
        return {"names": [name for name in self.names if name in sys.modules]}
