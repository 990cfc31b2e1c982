"""Windows of samples: loaded ahead, in order, and put together to batches."""

from trainfeed.loader.windows._feeds import InlineFeed, ThreadFeed, ThreadPlan
from trainfeed.loader.windows._load_window import Feed, ReadAhead, Window, load_window
from trainfeed.loader.windows._mixture_engine import MixtureEngine
from trainfeed.loader.windows._pass import Pass
from trainfeed.loader.windows._set_engine import Engine, SetEngine

__all__ = [
    "Engine",
    "Feed",
    "InlineFeed",
    "MixtureEngine",
    "Pass",
    "ReadAhead",
    "SetEngine",
    "ThreadFeed",
    "ThreadPlan",
    "Window",
    "load_window",
]
