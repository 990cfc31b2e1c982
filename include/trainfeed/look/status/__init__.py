"""The status of data sets: which intervals are there, which are missing, and why.

The answer comes from the folder of a data set alone, without a scheduler and without the source.
Builds, readers, retention and trainings do not use it: they look for themselves. ``report`` lists
the intervals, ``states`` decides the state of each and its reason.
"""

from trainfeed.look.status.report import DatasetStatus, IntervalStatus, as_text, dataset_status
from trainfeed.look.status.states import STATES, Attempts, State

__all__ = [
    "STATES",
    "Attempts",
    "DatasetStatus",
    "IntervalStatus",
    "State",
    "as_text",
    "dataset_status",
]
