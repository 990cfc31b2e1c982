"""Shard files as the loader opens, maps and reads them."""

from trainfeed.loader.files._mapping import is_network
from trainfeed.loader.files._shard_files import DEFAULT_READ_DEADLINE_S, ShardFiles

__all__ = [
    "DEFAULT_READ_DEADLINE_S",
    "ShardFiles",
    "is_network",
]
