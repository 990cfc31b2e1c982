"""Dispatch: one master hands out the chunks of published versions to trainers that come and go.

Every chunk is read at least once in a pass, or is reported. ``readers.dispatched`` is the trainer's
side, ``trainfeed dispatch serve`` the master. Trainers import neither SQLite nor a web framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.core.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.serving.dispatch.client import MasterClient
    from trainfeed.serving.dispatch.master import MasterOptions, serve_master
    from trainfeed.serving.dispatch.messages import (
        Answer,
        Ask,
        Failure,
        Lease,
        PassReport,
        Served,
        Status,
    )
    from trainfeed.serving.dispatch.queue import TaskList, TaskQueue, TaskSpan
    from trainfeed.serving.dispatch.state import QueueOptions

__all__ = [
    "Answer",
    "Ask",
    "Failure",
    "Lease",
    "MasterClient",
    "MasterOptions",
    "PassReport",
    "QueueOptions",
    "Served",
    "Status",
    "TaskList",
    "TaskQueue",
    "TaskSpan",
    "serve_master",
]


__getattr__ = on_demand(__name__)
