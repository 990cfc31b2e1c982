"""The originals' loader over generators, and their sampler of index batches, with arrays.

``trainfeed.compat.paddle.io`` and ``trainfeed.compat.paddle.fluid.io`` offer them under the
originals' names; ``trainfeed.DataLoader`` is the loader for everything that is new.
"""

from trainfeed.compat.paddle.loading._feed_variables import FeedVariable
from trainfeed.compat.paddle.loading._generator import GeneratorLoader
from trainfeed.compat.paddle.loading._index_batches import DistributedBatchSampler, IndexBatch

__all__ = ["DistributedBatchSampler", "FeedVariable", "GeneratorLoader", "IndexBatch"]
