"""The kinds that a schedule removes, without a person who looks."""

from __future__ import annotations

from trainfeed.retention._context import Kind
from trainfeed.retention.kinds import KINDS
from trainfeed.specification import DatasetSpec

__all__ = ["scheduled_kinds"]

_STATED = frozenset({"keep_generations", "keep_days"})


def scheduled_kinds(spec: DatasetSpec) -> tuple[Kind, ...]:
    """Return the kinds for a nightly run: superseded generations only by a stated rule.

    ``keep_generations`` has a default, for the command of a person. Nobody has decided that a
    schedule removes versions by it.
    """
    is_stated = bool(_STATED & spec.retention.model_fields_set)
    return tuple(each for each in KINDS if is_stated or each.name != "generations")
