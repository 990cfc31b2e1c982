"""The kinds that a schedule removes, without a person who looks."""

from __future__ import annotations

from trainfeed.retention._context import Kind
from trainfeed.retention.kinds import KINDS, RetiredIntervals
from trainfeed.specification import DatasetSpec

__all__ = ["scheduled_kinds"]

_STATED = frozenset({"keep_generations", "keep_days"})


def scheduled_kinds(spec: DatasetSpec) -> tuple[Kind, ...]:
    """Return the kinds for a nightly run: superseded generations only by a stated rule.

    ``keep_generations`` has a default, for the command of a person. Nobody has decided that a
    schedule removes versions by it.
    """
    is_stated = bool(_STATED & spec.retention.model_fields_set)
    if is_stated:
        return KINDS
    # The bytes of superseded generations, which stay then, count for ``max_bytes``.
    intervals = RetiredIntervals(superseded_go=False)
    kinds = (each for each in KINDS if each.name != "generations")
    return tuple(intervals if each.name == intervals.name else each for each in kinds)
