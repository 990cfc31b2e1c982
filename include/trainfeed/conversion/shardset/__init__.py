"""A set of shards: writing and publication; its manifest is in ``trainfeed.dataset.shards``."""

from trainfeed.conversion.shardset._conversion_target import ConversionTarget
from trainfeed.conversion.shardset._digested_shards import write_shards
from trainfeed.conversion.shardset._publication import Staging, finish_publication

__all__ = ["ConversionTarget", "Staging", "finish_publication", "write_shards"]
