"""Threads and processes that read ahead of a consumer, and end with it."""

from trainfeed.readers.ahead.children import (
    Child,
    iter_in_process,
    iter_in_processes,
    iter_in_turn,
    receive_any,
    started,
    timeout_error,
)
from trainfeed.readers.ahead.forked import (
    MessageKind,
    receive_message,
    send_message,
)
from trainfeed.readers.ahead.threads import Channel, end_threads, iter_ahead, start_thread

__all__ = [
    "Channel",
    "Child",
    "MessageKind",
    "end_threads",
    "iter_ahead",
    "iter_in_process",
    "iter_in_processes",
    "iter_in_turn",
    "receive_any",
    "receive_message",
    "send_message",
    "start_thread",
    "started",
    "timeout_error",
]
