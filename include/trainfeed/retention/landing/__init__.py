"""Retention of landing files: those of an interval go together, once no data set wants them."""

from trainfeed.retention.landing._landed_for import landed_for
from trainfeed.retention.landing._landing_kind import LandingFiles

__all__ = ["LandingFiles", "landed_for"]
