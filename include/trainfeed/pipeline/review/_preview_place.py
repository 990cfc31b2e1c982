"""A build in a temporary place whose only landed records are quarantined ones.

The stage ``preprocess`` runs there as it is, with its limits, and touches nothing else.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder
from trainfeed.intervals import Interval, parse_time
from trainfeed.pipeline.inputs import KeptInputs
from trainfeed.pipeline.planner import Planner
from trainfeed.pipeline.plans import Plan
from trainfeed.pipeline.preview import shadowed
from trainfeed.pipeline.quarantine import QuarantinedPlace, QuarantinedRecord
from trainfeed.pipeline.review._landed_again import LandedAgain, land_again
from trainfeed.pipeline.review._whole_records import WholeRecords
from trainfeed.pipeline.stage import Stage
from trainfeed.specification import DatasetSpec
from trainfeed.storage import Location, posix

__all__ = ["PreviewPlace", "preview_place"]

_FOLDER: Final = "previews"
_PREFIX: Final = "trainfeed-"


class PreviewPlace(NamedTuple):
    """A temporary place with records.

    Attributes:
        landed: The records.
        stage: The plan for them; None if there is no record.
    """

    landed: LandedAgain
    stage: Stage | None


@contextmanager
def preview_place(
    spec: DatasetSpec,
    env: Environment,
    whole: WholeRecords,
    places: Sequence[QuarantinedPlace],
    kept: Iterable[QuarantinedRecord],
) -> Iterator[PreviewPlace]:
    """Yield a place with some quarantined records of a plan; it is removed at the end.

    Args:
        spec: The data set as it is now.
        env: Folders and connections; no broker is contacted.
        whole: Reads records of the build that quarantined them.
        places: The records, in order of source and offset.
        kept: The same records as the quarantine keeps them.

    Raises:
        SourceReplacedError: The specification names another source.
    """
    plan = whole.plan
    KeptInputs(plan.inputs).require_source_of(spec)
    with (
        tempfile.TemporaryDirectory(prefix=_PREFIX, dir=_above(env)) as work,
        shadowed(env, spec.name, plan.interval["name"], published=False) as shadow,
    ):
        place = replace(shadow, landing=f"{work}/landing", work=f"{work}/work", kafka={})
        landing = Location.parse(place.landing)
        landed = land_again(whole, places, kept, landing)
        stage = _planned(_landing(spec), place, plan, landed) if landed.pieces else None
        yield PreviewPlace(landed, stage)


def _above(env: Environment) -> Path | None:
    """Return the folder in which housekeeping finds what a killed preview left.

    None, which means ``TMPDIR``, if the work area is no folder of this machine.
    """
    location = Location.parse(env.work) / _FOLDER
    if not location.uri.startswith("file://"):
        return None
    posix.make_public_dir(location.path)
    return Path(location.path)


def _planned(spec: DatasetSpec, place: Environment, plan: Plan, landed: LandedAgain) -> Stage:
    """Plan the records with code and specification of today."""
    start, end = (parse_time(plan.interval[edge]) for edge in ("start", "end"))
    interval = Interval(start, end, plan.interval["name"])
    folder = DatasetFolder(Path(place.root), spec.name)
    planner = Planner(spec, interval, place, folder)
    inputs = KeptInputs(plan.inputs)
    made = planner.make(inputs, rebuild=None, allow_gap=None, ranges=landed.pieces)
    return Stage(spec, place, made)


def _landing(spec: DatasetSpec) -> DatasetSpec:
    """Return the specification with log files that land: ``preprocess`` then reads what landed."""
    logs = spec.source.logs
    if logs is None:
        return spec
    source = spec.source.model_copy(update={"logs": logs.model_copy(update={"land": True})})
    return spec.model_copy(update={"source": source})
