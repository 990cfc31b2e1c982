"""From source positions to a published version: plan, ingest, preprocess, convert, check, publish.

One stage, one module. What a user function needs is importable from here; the stages are imported
by whoever runs them, because they pull in numpy and pyarrow.
"""

from trainfeed.build._record import Filtered, Record, Reject
from trainfeed.build._ref import PlanRef

__all__ = ["Filtered", "PlanRef", "Record", "Reject"]
