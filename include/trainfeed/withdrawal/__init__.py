"""Withdraws published generations from readers, and gives them back."""

from trainfeed.withdrawal.decisions import (
    Restored,
    Withdrawn,
    restore,
    restored_lines,
    withdraw,
    withdrawn_lines,
)
from trainfeed.withdrawal.generation import Maker

__all__ = [
    "Maker",
    "Restored",
    "Withdrawn",
    "restore",
    "restored_lines",
    "withdraw",
    "withdrawn_lines",
]
