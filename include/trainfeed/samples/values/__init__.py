"""Values of any kind as records, and back without trusting them."""

from trainfeed.samples.values._pickled import PickleCodec
from trainfeed.samples.values._value_codec import ValueCodec

__all__ = [
    "PickleCodec",
    "ValueCodec",
]
