"""Stage ``ingest``: copy planned ranges into landing files; verify a source that does not land.

The name of a landing file is its range. The stage adopts a complete file without reading the
source, so a retry or a rebuild reads no record of the broker twice.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from typing import BinaryIO

import pyarrow as pa

from trainfeed.core import faults
from trainfeed.files.stores import Location
from trainfeed.pipeline.inputs.schemas import TaskSchemas
from trainfeed.pipeline.inputs.source_readers import reader_of
from trainfeed.pipeline.labels import settle_labels
from trainfeed.pipeline.landed_ranges import landed_leaf, landing_file, write_landing
from trainfeed.pipeline.plans import PlannedRange
from trainfeed.pipeline.reports import Build, IngestReport, PublishedBefore
from trainfeed.pipeline.run_stage import run_stage, unit_of
from trainfeed.pipeline.stage import Stage
from trainfeed.versions import Leaf
from trainfeed.versions.interval_notes import telling_landing_removal


def ingest(build: Build, unit: int) -> IngestReport | PublishedBefore:
    """Land the ranges of one task.

    Args:
        build: The build.
        unit: Index into the plan's ``ingest``.

    Returns:
        The counts of landed records; the verdict is built, adopted, verified or published.

    Raises:
        SourceReplacedError: The topic or the log files are not those of the plan.
        OffsetOutOfRangeError: Retention deleted records of a range.
        SchemaChangedError: An id of a schema registry has another schema than before.
        IngestError: The source, or its schema registry, cannot be read now.
    """
    return run_stage("ingest", build, lambda stage: _ingest(stage, unit))


def _ingest(stage: Stage, unit: int) -> IngestReport:
    pieces = [stage.plan.ranges[index] for index in unit_of(stage.plan.ingest, unit)]
    if unit == 0:
        # Once here, so that not every task of preprocess reads the uploads.
        settle_labels(stage)
        reader_of(stage.spec).check_names(stage, stage.plan.ranges)
    lands = stage.lands(pieces[0].source) if pieces else stage.spec.source.kind.lands
    if not lands:
        return _verify(stage, unit, pieces)
    adopted, landed = Leaf(), Leaf()
    missing = []
    schemas = TaskSchemas(stage, unit)
    for piece in pieces:
        planned = stage.plan.inputs[piece.source]
        location = landing_file(stage.landing, planned, piece)
        leaf = landed_leaf(location, planned, piece, schemas.seen(piece))
        if leaf is not None:
            adopted += leaf
        else:
            missing.append((piece, location))
    # The source is contacted only for missing pieces: with all landed, a retry works without it.
    if missing:
        reader_of(stage.spec).check(stage, {piece.source for piece, _ in missing})
    schemas.begin(lands=bool(missing))
    with telling_landing_removal(stage.folder, stage.plan.interval["name"]):
        for piece, location in missing:
            landed += _land(stage, piece, location, schemas)
    schemas.finish()
    total = adopted + landed
    return IngestReport(
        verdict="built" if landed.records else "adopted",
        unit=unit,
        source_reads=landed.records,
        records=total.records,
        bytes=total.bytes,
    )


def _verify(stage: Stage, unit: int, pieces: list[PlannedRange]) -> IngestReport:
    """Compare the files that preprocess will read with the plan."""
    reader_of(stage.spec).check(stage, {piece.source for piece in pieces})
    num_bytes = sum(piece.end - piece.start for piece in pieces)
    return IngestReport(verdict="verified", unit=unit, records=0, bytes=num_bytes)


def _land(stage: Stage, piece: PlannedRange, location: Location, schemas: TaskSchemas) -> Leaf:
    leaves: list[Leaf] = []
    with closing(_batches(stage, piece, schemas)) as batches:
        location.write_atomic(lambda file: leaves.append(_write(file, batches, piece)))
    faults.point("ingest.after_rename")
    return leaves[-1]


def _batches(stage: Stage, piece: PlannedRange, schemas: TaskSchemas) -> Generator[pa.RecordBatch]:
    batches = reader_of(stage.spec).batches(stage, piece)
    see = schemas.seen(piece)
    if see is None:
        yield from batches
        return
    for batch in batches:
        see(batch)
        yield batch


def _write(file: BinaryIO, batches: Iterator[pa.RecordBatch], piece: PlannedRange) -> Leaf:
    leaf = write_landing(file, batches, piece.source)
    faults.point("ingest.before_rename")
    return leaf
