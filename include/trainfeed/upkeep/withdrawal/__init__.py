"""Withdraws published generations from readers, and gives them back."""

from trainfeed.upkeep.withdrawal.decisions import (
    Restored,
    Withdrawn,
    restore,
    restored_lines,
    withdraw,
    withdrawn_lines,
)
from trainfeed.upkeep.withdrawal.generation import Maker

__all__ = [
    "Maker",
    "Restored",
    "Withdrawn",
    "restore",
    "restored_lines",
    "withdraw",
    "withdrawn_lines",
]
