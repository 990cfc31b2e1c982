"""Sets of shards that conversions write, with their manifest; not those of versions."""

from trainfeed.dataset.shards._shard_format import FileFormat, ShardFormat
from trainfeed.dataset.shards._shard_info import ShardInfo
from trainfeed.dataset.shards._shard_manifest import (
    Encoding,
    ShardManifest,
    manifests_of,
    prefixes_in,
)

__all__ = [
    "Encoding",
    "FileFormat",
    "ShardFormat",
    "ShardInfo",
    "ShardManifest",
    "manifests_of",
    "prefixes_in",
]
