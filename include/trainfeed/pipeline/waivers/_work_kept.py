"""Work files of a plan that ``check`` refused: a later build of the plan does not make them again.

``check`` read all of them to measure the gates, and they are a function of the plan. They are used
only while the record of these gates is there, for the same plan file; the record is removed as soon
as a work file turns out missing or damaged.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import closing

from trainfeed.dataset.manifest import ShardEntry
from trainfeed.dataset.waive import read_refused
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.pipeline.functions import RecordAccount
from trainfeed.pipeline.plans import PlannedShard
from trainfeed.pipeline.sorting import ArrowWithTrailer
from trainfeed.pipeline.stage import Stage
from trainfeed.pipeline.version import ShardPart
from trainfeed.storage import posix

__all__ = ["kept_account", "kept_shards"]

logger = logging.getLogger(__name__)


def kept_account(stage: Stage, unit: int, *, alone: bool = False) -> RecordAccount | None:
    """Return the account of a task of ``preprocess`` whose files are kept; None if it must run.

    Args:
        stage: The stage.
        unit: Number of the task.
        alone: Whether the account does without samples, because all shards are kept, too.
    """
    used = [] if stage.spec.uploads is None else [stage.labels_file, stage.used_labels_file(unit)]
    files = [stage.quarantine_file(unit), *used]
    if not _was_measured(stage) or not all(file.exists() for file in files):
        return None
    try:
        with closing(ArrowWithTrailer(stage.spill_file(unit))) as spill:
            if not alone and not spill.has_samples:
                return None
            return RecordAccount.from_json(spill.trailer)
    except (FormatError, NotFoundError) as error:
        logger.warning("preprocess runs again, its samples cannot be used: %s", error)
        return None


def kept_shards(stage: Stage, shards: Sequence[PlannedShard]) -> list[ShardEntry] | None:
    """Return the entries of the shards of a task of ``convert`` that are kept; None otherwise."""
    if not _was_measured(stage):
        return None
    try:
        return [_entry(stage, shard) for shard in shards]
    except (FormatError, NotFoundError) as error:
        logger.warning("convert runs again, its shards cannot be used: %s", error)
        return None


def _was_measured(stage: Stage) -> bool:
    ref = stage.plan.ref()
    refused = read_refused(stage.folder, ref.interval, ref.plan_id)
    return refused is not None and refused.plan_sha256 == stage.plan_sha256


def _entry(stage: Stage, shard: PlannedShard) -> ShardEntry:
    with closing(ArrowWithTrailer(stage.part_file(shard))) as file:
        entry = ShardPart.from_json(file.trailer).entry
    path = stage.staged / entry.name
    with posix.map_errors(path):
        num_bytes = path.stat().st_size
    if num_bytes != entry.bytes:
        raise FormatError(f"expected {entry.bytes} bytes, got {num_bytes}", path=str(path))
    return entry
