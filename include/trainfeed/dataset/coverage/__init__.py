"""The state of requested intervals: published, skipped by a decision, or missing.

Nothing of a request is passed over in silence. Between two versions their manifests show what is
missing: each ends where the next one starts, whatever the schedule is now. Behind the last version
and before the first one the recorded schedule has the intervals that should exist; without a
schedule the versions must cover the whole range. What is missing is named by the interval of the
schedule that fits into the hole, and otherwise by its range.
"""

from trainfeed.dataset.coverage._contiguity import (
    Times,
    Uncovered,
    skip_of,
    start_of,
    uncovered,
)
from trainfeed.dataset.coverage._coverage_state import MISSING_POLICIES, Coverage, check_policy
from trainfeed.dataset.coverage._covered_range import (
    cover,
    cover_named,
    holes_between,
    published_in,
)

__all__ = [
    "MISSING_POLICIES",
    "Coverage",
    "Times",
    "Uncovered",
    "check_policy",
    "cover",
    "cover_named",
    "holes_between",
    "published_in",
    "skip_of",
    "start_of",
    "uncovered",
]
