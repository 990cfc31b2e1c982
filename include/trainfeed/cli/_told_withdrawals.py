"""What commands say about withdrawn versions: who withdrew them, when and why."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from trainfeed.cli._printing import print_message
from trainfeed.dataset import DatasetFolder
from trainfeed.dataset.withdraw import withdrawal_of, withdrawals

__all__ = ["tell_newer_withdrawals", "tell_withdrawal"]

# Lines; trainfeed history has all of them.
_MOST: Final = 20


def tell_withdrawal(folder: DatasetFolder, interval: str, generation: int) -> None:
    """Print who withdrew a version that is looked at, and why, if it is withdrawn."""
    if (mark := withdrawal_of(folder, interval, generation)) is not None:
        print_message(f"{mark.told}; readers do not get it")


def tell_newer_withdrawals(folder: DatasetFolder, intervals: Iterable[str]) -> None:
    """Print who withdrew generations that are newer than those that readers get."""
    told = []
    for interval in intervals:
        readable = folder.readable_generation(interval) or 0
        newer = [mark for mark in withdrawals(folder, interval) if mark.generation > readable]
        told += [f"{mark.told}; readers do not get it" for mark in newer]
    for line in told[:_MOST]:
        print_message(line)
    if len(told) > _MOST:
        more = f"and {len(told) - _MOST} more are withdrawn"
        print_message(f"{more}: trainfeed history {folder.name} --action withdraw")
