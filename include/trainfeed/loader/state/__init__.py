"""The values that a loader hands out: batches, its state, its report."""

from trainfeed.loader.state._loaded_batch import Batch, Standing
from trainfeed.loader.state._state import LARGEST, LARGEST_SEED, MOST_LANES, LoaderState, Weights
from trainfeed.loader.state._stats import LoaderReport, LoaderStats
from trainfeed.loader.state._stretches import (
    Skip,
    Stretches,
    check_ahead,
    kept_parts,
    merged,
    stretches_of,
)

__all__ = [
    "LARGEST",
    "LARGEST_SEED",
    "MOST_LANES",
    "Batch",
    "LoaderReport",
    "LoaderState",
    "LoaderStats",
    "Skip",
    "Standing",
    "Stretches",
    "Weights",
    "check_ahead",
    "kept_parts",
    "merged",
    "stretches_of",
]
