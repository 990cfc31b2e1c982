"""The status of data sets: which intervals are there, which are missing, and why.

The answer comes from the folder of a data set alone, without a scheduler and without the source.
Builds, readers, retention and trainings do not use it: they look for themselves.
"""

from trainfeed.status._attempts import Attempts
from trainfeed.status._dataset_status import DatasetStatus, IntervalStatus, as_text
from trainfeed.status._states import STATES, State
from trainfeed.status._status import dataset_status

__all__ = [
    "STATES",
    "Attempts",
    "DatasetStatus",
    "IntervalStatus",
    "State",
    "as_text",
    "dataset_status",
]
