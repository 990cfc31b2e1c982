"""The external sort of a conversion: sorted runs on disk, in buckets of keys, read in order."""

from trainfeed.conversion.sorting._builder import RunBuilder, sort_keys
from trainfeed.conversion.sorting._key_sort import SortedParts, iter_sorted, num_samples_of
from trainfeed.conversion.sorting._sample_spill import Spill

__all__ = [
    "RunBuilder",
    "SortedParts",
    "Spill",
    "iter_sorted",
    "num_samples_of",
    "sort_keys",
]
