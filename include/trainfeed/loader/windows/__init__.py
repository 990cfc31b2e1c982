"""Windows of samples: loaded ahead, in order, and put together to batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.loader.windows._feeds import InlineFeed, ThreadFeed, ThreadPlan
    from trainfeed.loader.windows._load_window import Feed, ReadAhead, Window, load_window
    from trainfeed.loader.windows._mixture_engine import MixtureEngine
    from trainfeed.loader.windows._pass import Pass, RunReader, WindowReader
    from trainfeed.loader.windows._set_engine import Engine, SetEngine

__all__ = [
    "Engine",
    "Feed",
    "InlineFeed",
    "MixtureEngine",
    "Pass",
    "ReadAhead",
    "RunReader",
    "SetEngine",
    "ThreadFeed",
    "ThreadPlan",
    "Window",
    "WindowReader",
    "load_window",
]

# Names are imported on demand: worker processes import this package and need few of them.

__getattr__ = on_demand(__name__, __file__)
