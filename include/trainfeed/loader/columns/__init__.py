"""Columns of samples in lent memory: fixed, ragged, scattered."""

from trainfeed.loader.columns._field_columns import Column, Columns, Dense, Rows, count_rows
from trainfeed.loader.columns._lent_memory import (
    ALIGNMENT_BYTES,
    FreshMemory,
    LentMemory,
    LentPool,
    Memory,
    ThreadMemory,
    carve,
    lend,
)
from trainfeed.loader.columns._ragged import Ragged
from trainfeed.loader.columns._scatter import SampleLayout, Scattered, addresses_in
from trainfeed.loader.columns._targets import Targets, array_targets, joined, targets_for

__all__ = [
    "ALIGNMENT_BYTES",
    "Column",
    "Columns",
    "Dense",
    "FreshMemory",
    "LentMemory",
    "LentPool",
    "Memory",
    "Ragged",
    "Rows",
    "SampleLayout",
    "Scattered",
    "Targets",
    "ThreadMemory",
    "addresses_in",
    "array_targets",
    "carve",
    "count_rows",
    "joined",
    "lend",
    "targets_for",
]
