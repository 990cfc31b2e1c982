"""The order of an epoch, and which part of it belongs to which rank and batch."""

from trainfeed.loader.order._epoch_order import DEFAULT_WINDOW_BYTES, Order, Span, lanes_for
from trainfeed.loader.order._epoch_part import BatchCut, EpochPart, RankShare, Tail
from trainfeed.loader.order._mixing import Weight, shares_of
from trainfeed.loader.order._mixture import History, Mixture, mix
from trainfeed.loader.order._task import Task

__all__ = [
    "DEFAULT_WINDOW_BYTES",
    "BatchCut",
    "EpochPart",
    "History",
    "Mixture",
    "Order",
    "RankShare",
    "Span",
    "Tail",
    "Task",
    "Weight",
    "lanes_for",
    "mix",
    "shares_of",
]
