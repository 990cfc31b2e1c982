"""Withdraws published generations from readers, and gives them back."""

from trainfeed.withdrawal._decision_maker import Maker
from trainfeed.withdrawal._restore import Restored, restore, restored_lines
from trainfeed.withdrawal._withdraw import Withdrawn, withdraw, withdrawn_lines

__all__ = [
    "Maker",
    "Restored",
    "Withdrawn",
    "restore",
    "restored_lines",
    "withdraw",
    "withdrawn_lines",
]
