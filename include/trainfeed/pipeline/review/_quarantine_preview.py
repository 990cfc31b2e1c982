"""Runs the function of today over the quarantined records of a build; publishes nothing."""

from __future__ import annotations

import time
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Final

from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder
from trainfeed.pipeline._ref import Build
from trainfeed.pipeline.plans import load_plan
from trainfeed.pipeline.preprocess import preprocess
from trainfeed.pipeline.quarantine import MOST_RAW_BYTES, Quarantine, read_raw
from trainfeed.pipeline.review._landed_again import LandedAgain
from trainfeed.pipeline.review._preview_place import PreviewPlace, preview_place
from trainfeed.pipeline.review._reason_outcome import QuarantinePreview, ReasonOutcome
from trainfeed.pipeline.review._task_outcomes import count_outcomes
from trainfeed.pipeline.review._whole_records import WholeRecords
from trainfeed.specification import DatasetSpec

__all__ = ["preview_quarantine"]

_COMMAND: Final = "preview"
_BATCH_NOTE: Final = (
    "batch mode: the function gets these records in batches of their own, without the records that"
    " stand between them in a build; a function that compares the rows of a batch may judge"
    " otherwise there"
)


def preview_quarantine(
    spec: DatasetSpec,
    env: Environment,
    quarantine: Quarantine,
    *,
    reason: str | None = None,
    limit: int,
) -> QuarantinePreview:
    """Run the function of today over quarantined records, as a build would, and report by reason.

    Args:
        spec: The data set as it is now: function, lookups, schema and limits.
        env: Folders and connections; no broker is contacted. Only the audit is written.
        quarantine: The quarantine of a version, or of a build that failed.
        reason: Only records with this reason; None for all.
        limit: The most records.

    Raises:
        NotFoundError: The plan of the build is gone.
        FormatError: A record is not of the plan's inputs: the quarantine is damaged.
        AccessDeniedError: Only the account that builds may read the records.
        PreprocessError: The function raised, or returned what the schema forbids.
        MemoryLimitError: The function took too much memory.
    """
    started = time.perf_counter()
    plan = load_plan(DatasetFolder(Path(env.root), quarantine.dataset), quarantine.plan)
    kept = read_raw(Path(env.root), quarantine, _COMMAND, reason=reason, limit=limit)
    places = list(islice(quarantine.places(reason), limit))
    whole = WholeRecords(env, plan, spec, quarantine.place)
    with preview_place(spec, env, whole, places, kept) as place:
        outcomes, filtered = _run(place)
    outcomes.sort(key=lambda outcome: (-outcome.records, outcome.reason))
    return QuarantinePreview(
        dataset=quarantine.dataset,
        interval=quarantine.interval,
        origin=quarantine.origin,
        is_published=quarantine.is_published,
        quarantined=sum(quarantine.reasons().values()),
        outcomes=outcomes,
        filtered=filtered,
        left_out=place.landed.left_out,
        notes=_notes(spec, place.landed),
        seconds=round(time.perf_counter() - started, 3),
    )


def _run(place: PreviewPlace) -> tuple[list[ReasonOutcome], dict[str, int]]:
    """Run the function; return what became of the records by reason, and the filtered ones."""
    reasons = place.landed.reasons
    counts = Counter(reasons.values())
    outcomes = {reason: ReasonOutcome(reason, records) for reason, records in counts.items()}
    filtered: Counter[str] = Counter()
    if place.stage is not None:
        build = Build(place.stage.spec, place.stage.env, place.stage.plan.ref())
        for unit in range(len(place.stage.plan.preprocess)):
            preprocess(build, unit)
            filtered += count_outcomes(place.stage, unit, reasons, outcomes)
    return list(outcomes.values()), dict(sorted(filtered.items()))


def _notes(spec: DatasetSpec, landed: LandedAgain) -> list[str]:
    notes = [_BATCH_NOTE] if spec.preprocess.input == "batch" else []
    notes += [
        f"{records} records come from the quarantine, without key, headers and, for topics, their"
        f" own time: {why}"
        for why, records in landed.from_quarantine.items()
    ]
    if landed.left_out:
        notes.append(
            f"{landed.left_out} records were not previewed: landing is gone, and the quarantine"
            f" keeps only their first {MOST_RAW_BYTES} bytes"
        )
    return notes
