"""The rule about superseded generations of an interval."""

from __future__ import annotations

from datetime import timedelta

from trainfeed.retention._context import Context

__all__ = ["generation_rule", "superseded_by_rule"]


def superseded_by_rule(context: Context, interval: str) -> list[int]:
    """Return the generations of an interval that the rule does not keep."""
    folder, rule = context.look, context.spec.retention
    # Ascending, so the slice leaves out the newest. ``keep_days`` keeps further ones.
    beyond = folder.generations(interval)[: -rule.keep_generations]
    if beyond and rule.keep_days is not None:
        before = context.now - timedelta(days=rule.keep_days)
        beyond = [each for each in beyond if folder.published_at(interval, each) < before]
    readable = folder.readable_generation(interval) if beyond else None
    return [each for each in beyond if each != readable]


def generation_rule(context: Context) -> str:
    """Return the rule as it stands in dataset.yaml."""
    rule = context.spec.retention
    days = "" if rule.keep_days is None else f", keep_days: {rule.keep_days}"
    return f"keep_generations: {rule.keep_generations}{days}"
