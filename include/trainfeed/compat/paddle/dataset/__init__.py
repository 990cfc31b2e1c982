"""``paddle.dataset``: MNIST, a bag of words, downloads, and shards of data sets."""

from trainfeed.compat.paddle.dataset import bow, common, mnist

__all__ = ["bow", "common", "mnist"]
