"""Claims of plans that retention gives up: their landing files go first, as only they name them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trainfeed.retention._context import Context
from trainfeed.retention._given_up_plans import given_up_plans
from trainfeed.retention._item import Expired
from trainfeed.retention.landing._landing_claims import IntervalClaims, PlanClaim, claims_of

__all__ = ["claims_and_rules"]


def claims_and_rules(context: Context) -> Iterator[tuple[IntervalClaims, str | None]]:
    """Yield the claims of every interval, with the rule that gives up some of its plans, if any.

    Args:
        context: The data set.

    Raises:
        StorageError: The publication root refused or failed.
    """
    found = (each for each in given_up_plans(context) if isinstance(each, Expired))
    rules = {each.item.name: each.why for each in found}
    for claims in claims_of(context.look):
        names = {each: f"{claims.interval}/{each.plan_id}" for each in claims.plans}
        plans = tuple(_ended(each, is_ended=name in rules) for each, name in names.items())
        rule = next((rules[name] for name in names.values() if name in rules), None)
        yield replace(claims, plans=plans), rule


def _ended(claim: PlanClaim, *, is_ended: bool) -> PlanClaim:
    return replace(claim, state="given up") if is_ended and claim.state == "open" else claim
