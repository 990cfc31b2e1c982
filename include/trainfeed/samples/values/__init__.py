"""Values of any kind as records, and records back to values with every length checked."""

from trainfeed.samples.values._pickled import PickleCodec
from trainfeed.samples.values._value_codec import ValueCodec

__all__ = [
    "PickleCodec",
    "ValueCodec",
]
