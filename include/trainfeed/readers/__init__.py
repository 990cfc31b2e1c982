"""Reader creators: published data sets as zero-argument callables that iterate samples."""

from trainfeed.readers._dataset import DatasetReader, open_dataset
from trainfeed.readers._types import Reader, Sample

__all__ = ["DatasetReader", "Reader", "Sample", "open_dataset"]
