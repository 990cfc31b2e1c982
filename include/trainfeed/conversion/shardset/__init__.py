"""A set of shards: names, manifest, writing, publication."""

from trainfeed.conversion.shardset._conversion_target import ConversionTarget
from trainfeed.conversion.shardset._digested_shards import ShardInfo, write_shards
from trainfeed.conversion.shardset._manifest import Encoding, ShardManifest
from trainfeed.conversion.shardset._publication import Staging, finish_publication
from trainfeed.conversion.shardset._shard_names import MAX_SHARDS, ShardName, shard_name

__all__ = [
    "MAX_SHARDS",
    "ConversionTarget",
    "Encoding",
    "ShardInfo",
    "ShardManifest",
    "ShardName",
    "Staging",
    "finish_publication",
    "shard_name",
    "write_shards",
]
