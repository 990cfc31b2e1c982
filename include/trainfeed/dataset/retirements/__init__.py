"""Retired intervals: all their versions are removed for good, and a file says by whom and why."""

from trainfeed.dataset.retirements._missing_remedies import missing_remedies
from trainfeed.dataset.retirements._retired_readers import generation_for_readers
from trainfeed.dataset.retirements._retirement import Retirement
from trainfeed.dataset.retirements._retirement_file import (
    begun_retirement,
    lift_retirement,
    retirement_of,
    write_retirement,
)
from trainfeed.dataset.retirements._told_retirements import told_missing, told_retirements

__all__ = [
    "Retirement",
    "begun_retirement",
    "generation_for_readers",
    "lift_retirement",
    "missing_remedies",
    "retirement_of",
    "told_missing",
    "told_retirements",
    "write_retirement",
]
