"""The state of requested intervals: published, skipped by a decision, or missing.

Each interval of a request is in one of these three states, and none is passed over in silence. The
recorded schedule has the intervals that should exist. Without a schedule the versions themselves
show what is missing: each ends where the next one starts, and together they must cover the range; a
hole is named by its range.
"""

from trainfeed.dataset.coverage._contiguity import start_of
from trainfeed.dataset.coverage._coverage_state import MISSING_POLICIES, Coverage, check_policy
from trainfeed.dataset.coverage._covered_range import cover, cover_named, published_in

__all__ = [
    "MISSING_POLICIES",
    "Coverage",
    "check_policy",
    "cover",
    "cover_named",
    "published_in",
    "start_of",
]
