"""The landing files of one interval as an item of retention."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from trainfeed.retention._context import Context
from trainfeed.retention._folder_look import Look
from trainfeed.retention._item import Excess, Expired, Item, Kept
from trainfeed.retention._rule import held_against
from trainfeed.retention.landing._given_up import claims_and_rules
from trainfeed.retention.landing._landing_claims import IntervalClaims
from trainfeed.retention.landing._landing_listing import LandingListing
from trainfeed.storage import Location

__all__ = ["KIND", "LandingItem", "released"]

KIND = "landing"
_UNWANTED = "no generation of the interval is made from them any more"


@dataclass(frozen=True)
class LandingItem(Item):
    """Landing files of one interval.

    Attributes:
        interval: Name of the interval.
        files: Their paths below the landing area.
        is_wanted: Whether a published generation is made from them.
    """

    interval: str
    files: tuple[str, ...]
    is_wanted: bool


def released(context: Context, listing: LandingListing) -> Iterator[Expired | Kept | Excess]:
    """Yield the landing files that one data set alone no longer wants, whoever else reads them.

    Files that only removed generations were made from are let go as such, those that only plans
    name which are given up by the rule ``plans``, and other ones by the rule ``landing``, counted
    from the publication of the newest generation.

    Args:
        context: The data set.
        listing: The landing area.

    Raises:
        StorageError: The publication root or the store refused or failed.
    """
    area = Location.parse(context.env.landing)
    claims, items = {}, []
    for each, rule in claims_and_rules(context):
        claims[each.interval] = each
        yield from _unwanted(context, each, rule, listing)
        published = _published(context.look, each)
        wanted = published and _item(area, each.interval, each.wanted, listing, published)
        items += [wanted] if wanted else []
    by = context.spec.retention.landing
    yield from held_against(by, items, context.now, lambda item: _user(context, claims, item))


def _unwanted(
    context: Context, claims: IntervalClaims, rule: str | None, listing: LandingListing
) -> Iterator[Expired | Kept]:
    area, interval = Location.parse(context.env.landing), claims.interval
    superseded = _item(area, f"{interval} (superseded)", claims.superseded, listing, None)
    given_up = _item(area, f"{interval} (given up)", claims.given_up, listing, None)
    found = [(superseded, _UNWANTED), (given_up, f"its plan is given up by plans.{rule}")]
    if claims.unreadable is None:
        yield from (Expired(item, why) for item, why in found if item is not None)
    else:
        # Nothing that is known tells which files the plan names.
        name = f"{interval} (unreadable plan)"
        yield Kept(
            LandingItem(KIND, name, 0, context.now, (), interval, (), False), _unknown(claims)
        )


def _unknown(claims: IntervalClaims) -> str:
    return f"{claims.unreadable}; landing files of the interval stay, as it may name any of them"


def _item(
    area: Location,
    name: str,
    names: frozenset[str],
    listing: LandingListing,
    published: datetime | None,
) -> LandingItem | None:
    files = [file for each in sorted(names) if (file := listing.find(each)) is not None]
    if not files:
        return None
    return LandingItem(
        kind=KIND,
        name=name,
        num_bytes=sum(file.num_bytes for file in files),
        since=published or max(file.modified for file in files),
        places=tuple((area / file.name).uri for file in files),
        interval=name.partition(" ")[0],
        files=tuple(file.name for file in files),
        is_wanted=published is not None,
    )


def _published(folder: Look, claims: IntervalClaims) -> datetime | None:
    """Return when the newest generation was published; None if none of them is there."""
    if not claims.generations:
        return None
    return folder.published_at(claims.interval, claims.generations[-1])


def _user(context: Context, claims: dict[str, IntervalClaims], item: Item) -> str | None:
    """Return what still needs the landing files of an interval."""
    found = claims[item.name]
    waiting = next((each.plan_id for each in found.plans if each.state == "open"), None)
    if found.unreadable is not None:
        return found.unreadable
    if waiting is not None:
        return f"plan {waiting} may still be published from them"
    uses = (context.uses.why(item.name, number) for number in found.generations)
    return next((why for why in uses if why is not None), None)
