"""``paddle.dataset``: MNIST from local files, downloads, and shards of data sets."""

from trainfeed.compat.paddle.dataset import common, mnist

__all__ = ["common", "mnist"]
