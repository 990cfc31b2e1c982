"""Paddle's loader over generators, and its sampler of index batches, with arrays.

``trainfeed.compat.paddle.io`` and ``trainfeed.compat.paddle.fluid.io`` export them under the
original names. New code should use ``trainfeed.DataLoader``.
"""

from trainfeed.compat.paddle.loading._feed_variables import FeedVariable
from trainfeed.compat.paddle.loading._generator import GeneratorLoader
from trainfeed.compat.paddle.loading._index_batches import DistributedBatchSampler, IndexBatch

__all__ = ["DistributedBatchSampler", "FeedVariable", "GeneratorLoader", "IndexBatch"]
