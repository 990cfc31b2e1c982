"""``paddle.io``: data sets, samplers and their loader, under the names of 2.x."""

from trainfeed.compat.paddle.io.datasets import (
    BatchSampler,
    ChainDataset,
    ComposeDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequenceSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    random_split,
)
from trainfeed.compat.paddle.io.loader import DataLoader
from trainfeed.compat.paddle.io.worker import (
    WorkerInfo,
    default_collate_fn,
    default_convert_fn,
    get_worker_info,
)
from trainfeed.compat.paddle.loading import DistributedBatchSampler

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ComposeDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedBatchSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequenceSampler",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "WorkerInfo",
    "default_collate_fn",
    "default_convert_fn",
    "get_worker_info",
    "random_split",
]
