"""``paddle.dataset``: MNIST from files that are there, and the shards of a data set."""

from trainfeed.compat.paddle.dataset import common, mnist

__all__ = ["common", "mnist"]
