"""Threads and processes that read ahead of a consumer, and end with it."""

from trainfeed.processes._channel import Channel
from trainfeed.processes._child import Child, late, receive_any
from trainfeed.processes._forked import hand_over_numbers
from trainfeed.processes._message import MessageKind, receive_message, send_message
from trainfeed.processes._stream import iter_in_process, iter_in_processes, iter_in_turn
from trainfeed.processes._thread import end_threads, iter_ahead, start_thread

__all__ = [
    "Channel",
    "Child",
    "MessageKind",
    "end_threads",
    "hand_over_numbers",
    "iter_ahead",
    "iter_in_process",
    "iter_in_processes",
    "iter_in_turn",
    "late",
    "receive_any",
    "receive_message",
    "send_message",
    "start_thread",
]
