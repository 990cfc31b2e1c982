"""Landing files of planned ranges: where they are, and what a complete one accounts for."""

from __future__ import annotations

import logging
from contextlib import closing

import pyarrow as pa
import pyarrow.compute as pc

from trainfeed.build._plan_file import PlannedInput, PlannedRange
from trainfeed.dataset import Leaf, canonical
from trainfeed.errors import FormatError
from trainfeed.sources import LandingFile, landing_folder, landing_name
from trainfeed.storage import Location

__all__ = ["is_landed", "landed_leaf", "landing_file", "leaf_of"]

logger = logging.getLogger(__name__)


def landing_file(landing: Location, planned: PlannedInput, piece: PlannedRange) -> Location:
    """Return where the records of a range land, below the landing area."""
    location = landing
    folder = landing_folder(planned.topic, planned.topic_uuid, planned.partition)
    for name in folder.split("/"):
        location = location / name
    return location / landing_name(piece.start, piece.end)


def landed_leaf(location: Location) -> Leaf | None:
    """Return the account of a landing file, or None when there is no complete, intact one."""
    if not location.exists():
        return None
    try:
        with closing(LandingFile.open(location)) as landing:
            landing.verify()
            return Leaf.from_json(canonical.loads(landing.metadata["ledger"].encode()))
    except (FormatError, KeyError) as error:
        logger.warning("%s is torn or damaged and will be landed anew: %s", location.uri, error)
        return None


def is_landed(landing: Location, planned: PlannedInput, piece: PlannedRange) -> bool:
    """Return whether a complete, intact landing file covers the range."""
    return landed_leaf(landing_file(landing, planned, piece)) is not None


def leaf_of(batch: pa.RecordBatch, source: int) -> Leaf:
    """Account for the records of a landing batch, whose source has that hash."""
    num_bytes = pc.sum(pc.binary_length(batch.column("value"))).as_py() or 0
    return Leaf.of(source, batch.column("offset").to_numpy(), num_bytes)
