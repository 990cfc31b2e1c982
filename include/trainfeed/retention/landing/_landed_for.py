"""The landing files of an interval that are still there."""

from __future__ import annotations

from trainfeed.retention._context import Context
from trainfeed.retention.landing._landing_claims import claims_in
from trainfeed.retention.landing._landing_listing import LandingListing
from trainfeed.storage import Location

__all__ = ["landed_for"]


def landed_for(context: Context, interval: str, plan_id: str | None = None) -> list[str]:
    """Return the landing files that plans of an interval name and that are there, sorted.

    Args:
        context: The data set.
        interval: Name of the interval.
        plan_id: Only files that this plan names and no other plan of the interval.

    Raises:
        StorageError: The publication root or the store refused or failed.
    """
    listing = LandingListing(Location.parse(context.env.landing))
    plans = claims_in(context.look, interval).plans
    asked = (each.files for each in plans if plan_id in (None, each.plan_id))
    others = (each.files for each in plans if plan_id not in (None, each.plan_id))
    names = frozenset[str]().union(*asked) - frozenset[str]().union(*others)
    return sorted(name for name in names if listing.find(name))
