"""Other data sets of the root that read the same topics: a file goes when all release it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from trainfeed.dataset.root import data_sets_of
from trainfeed.errors import TrainFeedError
from trainfeed.retention._context import Context
from trainfeed.retention._folder_look import Look
from trainfeed.retention._item import Expired
from trainfeed.retention.landing._interval_landing import LandingItem, released
from trainfeed.retention.landing._landing_claims import claims_of
from trainfeed.retention.landing._landing_listing import LandingListing
from trainfeed.specification import load_spec

__all__ = ["Sharer", "sharers_of"]


@dataclass(frozen=True)
class Sharer:
    """Another data set that names landing files of this one.

    Attributes:
        name: The data set.
        claimed: Files that its plans name and that it does not release.
        why_all: Why it keeps every file, because what it names cannot be told; else None.
    """

    name: str
    claimed: frozenset[str]
    why_all: str | None = None

    def wants(self, item: LandingItem) -> str | None:
        """Return why it wants files of an item; None if it does not."""
        if self.why_all is not None:
            return self.why_all
        if self.claimed.isdisjoint(item.files):
            return None
        return f"data set {self.name} reads them too, and its retention.landing keeps them"


def sharers_of(context: Context, listing: LandingListing) -> Iterator[Sharer]:
    """Yield the other data sets of the root; none of them if there is nothing to remove.

    Raises:
        StorageError: The publication root or the store refused or failed.
    """
    for name in data_sets_of(context.folder.root):
        if name != context.folder.name:
            yield _sharer(context, name, listing)


def _sharer(context: Context, name: str, listing: LandingListing) -> Sharer:
    named: set[str] = set()
    look = Look(context.folder.root, name)
    for claims in claims_of(look):
        if claims.unreadable is not None:
            return Sharer(name, frozenset(), claims.unreadable)
        named |= claims.named("open", "kept", "gone")
    if not named:
        return Sharer(name, frozenset())
    return Sharer(name, frozenset(named - _released_by(context, look, listing)))


def _released_by(context: Context, look: Look, listing: LandingListing) -> set[str]:
    """Return the files that a data set releases: none if its specification cannot be read."""
    try:
        spec = load_spec(context.env.datasets / look.name)
    except TrainFeedError:
        return set()
    other = replace(Context.of(spec, context.env, now=context.now, who=context.who), look=look)
    found = released(other, listing)
    items = (each.item for each in found if isinstance(each, Expired))
    return {name for item in items if isinstance(item, LandingItem) for name in item.files}
