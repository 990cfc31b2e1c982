"""The landing files of an interval that are still there."""

from __future__ import annotations

from trainfeed.retention._context import Context
from trainfeed.retention.landing._landing_claims import claims_in
from trainfeed.retention.landing._landing_listing import LandingListing
from trainfeed.storage import Location

__all__ = ["landed_for"]


def landed_for(context: Context, interval: str) -> list[str]:
    """Return the landing files that plans of an interval name and that are there, sorted.

    Raises:
        StorageError: The publication root or the store refused or failed.
    """
    listing = LandingListing(Location.parse(context.env.landing))
    claims = claims_in(context.folder, interval)
    return sorted(name for name in claims.wanted | claims.unwanted if listing.find(name))
