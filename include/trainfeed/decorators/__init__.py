"""Reader decorators: functions from readers to readers; they use blocks if readers have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.core.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.decorators.batches import (
        array_in,
        as_batches,
        batch,
        check_batch,
        collate,
        feed,
        fields_of,
        is_batch,
        stacked,
        strict_batches,
    )
    from trainfeed.decorators.combine import (
        ComposeNotAligned,
        chain,
        compose,
        map_blocks,
        map_readers,
    )
    from trainfeed.decorators.parallel import (
        PipeReader,
        buffered,
        iter_mapped,
        multiprocess_reader,
        xmap_readers,
    )
    from trainfeed.decorators.select import (
        BlockResumable,
        Fake,
        Resumable,
        cache,
        firstn,
        resumable,
        shuffle,
    )
    from trainfeed.decorators.stage import before_fork, set_epoch

__all__ = [
    "BlockResumable",
    "ComposeNotAligned",
    "Fake",
    "PipeReader",
    "Resumable",
    "array_in",
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
    "fields_of",
    "firstn",
    "is_batch",
    "iter_mapped",
    "map_blocks",
    "map_readers",
    "multiprocess_reader",
    "resumable",
    "set_epoch",
    "shuffle",
    "stacked",
    "strict_batches",
    "xmap_readers",
]

__getattr__ = on_demand(__name__)
