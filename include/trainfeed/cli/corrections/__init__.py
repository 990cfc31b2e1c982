"""Corrections on the command line: what people change about published versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trainfeed.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.cli.corrections._repair_command import repair

__all__ = ["repair"]

_HOMES: Final = {
    "repair": "._repair_command",
}

__getattr__ = on_demand(__name__, _HOMES)
