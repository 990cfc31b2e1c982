"""The kinds of things that retention removes, in the order in which a run removes them."""

from __future__ import annotations

from typing import Final

from trainfeed.retention._context import Kind
from trainfeed.retention.boundaries import BoundaryFiles
from trainfeed.retention.kinds._kept_texts import KeptTexts
from trainfeed.retention.kinds._killed_removals import KilledRemovals
from trainfeed.retention.kinds._range_to_retire import RangeToRetire
from trainfeed.retention.kinds._retired_intervals import RetiredIntervals
from trainfeed.retention.kinds._spent_plans import SpentPlans
from trainfeed.retention.kinds._superseded import SupersededGenerations
from trainfeed.retention.kinds._withdrawn_versions import WithdrawnGenerations
from trainfeed.retention.landing import LandingFiles
from trainfeed.retention.models import ModelVersions
from trainfeed.retention.trainings import Trainings
from trainfeed.retention.uploads import RetiredUploads
from trainfeed.retention.work import WorkFiles

__all__ = ["KINDS", "KilledRemovals", "RangeToRetire", "RetiredIntervals", "SpentPlans"]

KINDS: Final[tuple[Kind, ...]] = (
    KilledRemovals(),
    RetiredIntervals(),
    SupersededGenerations(),
    WithdrawnGenerations(),
    LandingFiles(),
    WorkFiles(),
    SpentPlans(),
    BoundaryFiles(),
    RetiredUploads(),
    KeptTexts("code"),
    KeptTexts("lookups"),
    Trainings(),
    ModelVersions(),
)
