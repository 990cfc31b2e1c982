"""Plans that retention gives up: their landing files go first, because only the plan names them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from trainfeed.dataset.leases import building
from trainfeed.retention._context import Context
from trainfeed.retention.landing._landing_claims import IntervalClaims, PlanClaim
from trainfeed.storage import posix

__all__ = ["given_up"]


def given_up(context: Context, claims: IntervalClaims) -> IntervalClaims:
    """Return claims in which plans older than ``plans.keep_days`` count as gone.

    The plans themselves are removed after their landing files, in the same run.

    Args:
        context: The data set.
        claims: The claims of one interval.

    Raises:
        StorageError: The publication root refused or failed.
    """
    days = context.spec.retention.plans.keep_days
    waiting = [each for each in claims.plans if each.state == "open"]
    if days is None or not waiting or building(context.folder, claims.interval, context.now):
        return claims
    before = context.now - timedelta(days=days)
    plans = (_ended(context, claims.interval, each, before) for each in claims.plans)
    return replace(claims, plans=tuple(plans))


def _ended(context: Context, interval: str, claim: PlanClaim, before: datetime) -> PlanClaim:
    path = context.folder.plan(interval, claim.plan_id)
    with posix.map_errors(path):
        made = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return replace(claim, state="gone") if claim.state == "open" and made <= before else claim
