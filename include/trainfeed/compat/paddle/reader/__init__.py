"""``paddle.reader``: decorators with the original's names and arguments."""

from trainfeed.compat.paddle.reader import creator
from trainfeed.compat.paddle.reader._original_shuffle import shuffle
from trainfeed.decorators import (
    ComposeNotAligned,
    Fake,
    PipeReader,
    buffered,
    cache,
    chain,
    compose,
    firstn,
    map_readers,
    multiprocess_reader,
    xmap_readers,
)

__all__ = [
    "ComposeNotAligned",
    "Fake",
    "PipeReader",
    "buffered",
    "cache",
    "chain",
    "compose",
    "creator",
    "firstn",
    "map_readers",
    "multiprocess_reader",
    "shuffle",
    "xmap_readers",
]
