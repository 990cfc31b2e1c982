"""Withdrawals: the marks by which people hide generations from readers, and what they refuse.

``versions/<interval>/g0001.withdrawn`` hides the generation as long as anything has this name. The
content says who, why and when, and what the generation was, so that the same is not published
again. A restoration renames the mark to ``g0001.restored-<digest of the mark>-<digest of the
decision>``, which keeps it. No other step decides: CURRENT follows, and a lost pointer undoes no
withdrawal.
"""

from trainfeed.dataset.withdrawals._mark_changes import lift_withdrawal, write_withdrawal
from trainfeed.dataset.withdrawals._mark_reading import (
    lifted_withdrawals,
    withdrawal_of,
    withdrawals,
)
from trainfeed.dataset.withdrawals._withdrawal import Withdrawal
from trainfeed.dataset.withdrawals._withdrawn_content import told_withdrawals, withdrawn_alike
from trainfeed.dataset.withdrawals._withdrawn_readers import look_for_withdrawal

__all__ = [
    "Withdrawal",
    "lift_withdrawal",
    "lifted_withdrawals",
    "look_for_withdrawal",
    "told_withdrawals",
    "withdrawal_of",
    "withdrawals",
    "withdrawn_alike",
    "write_withdrawal",
]
