"""Builds the first records of an interval to look at: samples, quarantine, statistics, gates.

All stages run as in a real build, over the first records of every source, in a temporary folder
that is removed at the end. Nothing is published, and nothing is written to another place.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from trainfeed import canonical_json
from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder, Version
from trainfeed.dataset.layout import plan_id_of
from trainfeed.errors import ConfigError, SourceMissingError
from trainfeed.intervals import Interval
from trainfeed.pipeline._plan_report import SkipReport
from trainfeed.pipeline._ref import Build, JsonObject
from trainfeed.pipeline.check import check
from trainfeed.pipeline.convert import convert
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.inputs import reader_of
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.plans import Plan, Planned, cut, load_plan, save_plan
from trainfeed.pipeline.preprocess import preprocess
from trainfeed.pipeline.preview._preview_gates import late_gate, looked_at
from trainfeed.pipeline.preview._preview_report import preview_report
from trainfeed.pipeline.preview._shadow import shadowed
from trainfeed.pipeline.publish import publish
from trainfeed.specification import DatasetSpec, Gate

__all__ = ["preview"]

_PREFIX: Final = "trainfeed-"


def preview(
    spec: DatasetSpec,
    interval: Interval,
    env: Environment,
    *,
    limit: int,
    allow_gap: str | None = None,
) -> JsonObject:
    """Build the first ``limit`` records of an interval, and return a report of the result.

    Args:
        spec: The data set.
        interval: A tick of its schedule.
        env: Folders and connections; only the sources are read.
        limit: Offsets or lines to read, divided among the sources; at least 1.
        allow_gap: The reason for accepting that retention deleted records, or None.

    Returns:
        JSON: ``records``, ``samples``, ``quarantined`` and ``filtered`` counts, ``passed_over``
        (name → reason of the entries of a folder of logs that are not read), ``first_samples``
        and ``first_quarantined``, ``statistics`` per field, ``gates`` with their results for these
        records, ``seconds``. Gates that need the whole interval are not judged: their ``value`` and
        ``passed`` are None.

    Raises:
        ConfigError: ``limit`` is less than 1.
        TrainFeedError: The error of a stage.
    """
    if limit < 1:
        raise ConfigError(f"expected a limit of at least 1, got {limit}")
    started = time.perf_counter()
    with (
        tempfile.TemporaryDirectory(prefix=_PREFIX) as work,
        shadowed(env, spec.name, interval.name, published=False) as shadow,
    ):
        place = replace(shadow, landing=f"{work}/landing", work=f"{work}/work")
        place, passed_over = reader_of(spec).head(spec, interval, place, Path(work), limit)
        planned = plan(spec, interval, place, allow_gap=allow_gap, checks_space=False)
        if isinstance(planned, SkipReport):
            raise SourceMissingError(planned.note)
        # The usual stages, one task each: only their plan is replaced by a shorter one.
        folder = DatasetFolder(Path(place.root), spec.name)
        whole = load_plan(folder, planned.ref)
        short = _shortened(whole, limit, late_gate(spec, whole))
        # The plan has looked at the copies alone.
        short = short.model_copy(update={"passed_over": dict(passed_over)})
        build = Build(spec, place, save_plan(folder, short).ref())
        for stage in (ingest, preprocess, convert):
            stage(build, 0)
        check(build)
        publish(build)
        report = preview_report(Version.resolve(folder, interval.name), whole)
    seconds = round(time.perf_counter() - started, 3)
    return {"dataset": spec.name, "interval": interval.name, **report, "seconds": seconds}


def _shortened(whole: Plan, limit: int, late: Sequence[Gate]) -> Plan:
    """Return the plan of the first records: one task per stage, gates that stop nothing."""
    # Inputs in bytes stay whole: ``SourceReader.head`` has copied only their first records.
    first = _first(whole.inputs, limit)
    inputs = whole.inputs | first
    ranges = [piece for piece in whole.ranges if piece.source not in first] + cut(first, limit)
    ranges.sort(key=lambda piece: piece.source.encode())
    values = whole.fingerprint_of | {
        "inputs": {source: planned.fingerprint() for source, planned in inputs.items()}
    }
    fingerprint = canonical_json.sha256_of(values)
    shards = dict.fromkeys(whole.shards, 1)
    group = [list(range(len(ranges)))]
    update = {
        "plan_id": plan_id_of(fingerprint, whole.generation),
        "fingerprint": fingerprint,
        "fingerprint_of": values,
        "inputs": inputs,
        "ranges": ranges,
        "ingest": group,
        "preprocess": group,
        "shards": shards,
        "references": [],
        "quality": looked_at([*whole.quality, *late]),
    }
    short = whole.model_copy(update=update)
    return short.model_copy(update={"convert": [short.all_shards()]})


def _first(planned: Mapping[str, Planned], limit: int) -> dict[str, Planned]:
    """Return ranges with ``limit`` offsets in all, from as many sources as possible."""
    inputs = {source: part for source, part in planned.items() if part.unit == "offsets"}
    shares = dict.fromkeys(inputs, 0)
    left = limit
    # The smallest sources first: the part of their share that they cannot use goes to the others.
    waiting = sorted(inputs, key=lambda source: inputs[source].end - inputs[source].start)
    for number, source in enumerate(waiting):
        size = inputs[source].end - inputs[source].start
        shares[source] = min(size, -(-left // (len(waiting) - number)))
        left -= shares[source]
    return {
        source: part.model_copy(update={"end": part.start + shares[source]})
        for source, part in inputs.items()
    }
