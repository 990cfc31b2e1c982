"""Reader decorators: functions from readers to readers; they use blocks if readers have them."""

from trainfeed.decorators._combine import chain, map_blocks
from trainfeed.decorators._compose import ComposeNotAligned, compose, map_readers
from trainfeed.decorators._fake import Fake
from trainfeed.decorators._feed import collate, feed
from trainfeed.decorators._pipe import PipeReader
from trainfeed.decorators._processes import multiprocess_reader
from trainfeed.decorators._reader_stage import before_fork, set_epoch
from trainfeed.decorators._resume import BlockResumable, Resumable, resumable
from trainfeed.decorators._sample_batches import (
    as_batches,
    batch,
    check_batch,
    is_batch,
    strict_batches,
)
from trainfeed.decorators._samples_ahead import buffered
from trainfeed.decorators._select import firstn, shuffle
from trainfeed.decorators._xmap import iter_mapped, xmap_readers
from trainfeed.decorators.caching import cache

__all__ = [
    "BlockResumable",
    "ComposeNotAligned",
    "Fake",
    "PipeReader",
    "Resumable",
    "as_batches",
    "batch",
    "before_fork",
    "buffered",
    "cache",
    "chain",
    "check_batch",
    "collate",
    "compose",
    "feed",
    "firstn",
    "is_batch",
    "iter_mapped",
    "map_blocks",
    "map_readers",
    "multiprocess_reader",
    "resumable",
    "set_epoch",
    "shuffle",
    "strict_batches",
    "xmap_readers",
]
