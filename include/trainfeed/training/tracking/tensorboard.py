"""Event files of TensorBoard: the metrics of a training, readable while the training runs."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from struct import Struct
from typing import Any, Final

from trainfeed.files import listed, make_folders, os_errors
from trainfeed.tfrecord import framed_record
from trainfeed.tfrecord.wire import encode_varint

TENSORBOARD: Final = "tensorboard"
_NAME: Final = re.compile(r"events\.out\.tfevents\.([0-9]{10})\..+")
_OPEN: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LARGEST_FLOAT: Final = 3.4028234663852886e38
# Keys of the fields of the messages Event, Summary, Summary.Value and SessionLog.
_WALL_TIME: Final = Struct("<Bd")
_SIMPLE_VALUE: Final = Struct("<Bf")
_STEP, _FILE_VERSION, _SUMMARY, _SESSION_LOG = b"\x10", b"\x1a", b"\x2a", b"\x3a"
_FIRST: Final = b"\x0a"
_START: Final = b"\x08\x01"
_NO_METRICS: Final = frozenset({"step", "samples"})


class EventFiles:
    """The event files of one job; only rank 0 writes them.

    Args:
        folder: Folder of the files; ``begin`` makes it.
        job: Name of the job.
    """

    def __init__(self, folder: Path, job: str) -> None:
        self._folder = folder
        self._job = job
        self._path = folder
        self._descriptor: int | None = None

    def begin(self, kept: Sequence[Mapping[str, Any]], gone: Sequence[Mapping[str, Any]]) -> None:
        """Begin a file.

        Args:
            kept: Lines of the metrics log that stay: those before the checkpoint.
            gone: Lines after the checkpoint, whose steps are computed again.

        Raises:
            StorageError: The file cannot be written.
        """
        self.close()
        with os_errors(self._folder):
            make_folders(self._folder)
        earlier = self._numbers()
        self._open(max([int(time.time()), *(number + 1 for number in earlier)]))
        self._write([_event(0, _FILE_VERSION, b"brain.Event:2")])
        first = _first_dropped(kept, gone) if earlier else 0
        if earlier:
            self._write([_event(first, _SESSION_LOG, _START)])
        # Without an earlier file these are all lines: the events were wanted later than the log.
        again = [line for line in kept if line["step"] >= first]
        self._write(_scalars(line["step"], line) for line in again)

    def add(self, step: int, values: Mapping[str, float | int | str]) -> None:
        """Write the metrics of a step.

        Args:
            step: Number of the step.
            values: Metrics, name to number; text for numbers that are not finite.

        Raises:
            StorageError: The file cannot be written.
        """
        self._write([_scalars(step, values)])

    def sync(self) -> None:
        """Make the events durable."""
        if self._descriptor is not None:
            with os_errors(self._path):
                os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file; safe to call twice."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _numbers(self) -> list[int]:
        names = (_NAME.fullmatch(path.name) for path in listed(self._folder))
        return [int(found[1]) for found in names if found]

    def _open(self, number: int) -> None:
        name = f"events.out.tfevents.{number:010d}.{self._job}.{os.getpid()}"
        self._path = self._folder / name
        with os_errors(self._path):
            self._descriptor = os.open(self._path, _OPEN, 0o644)

    def _write(self, events: Iterable[bytes]) -> None:
        if self._descriptor is None:
            raise AssertionError("begin comes first")
        data = b"".join(map(framed_record, events))
        with os_errors(self._path):
            while data:  # a full disk writes a part: writing the rest raises its error
                data = data[os.write(self._descriptor, data) :]


def _first_dropped(kept: Sequence[Mapping[str, Any]], gone: Sequence[Mapping[str, Any]]) -> int:
    """Return the step from which on the events of earlier files do not count."""
    after_kept = max((line["step"] for line in kept), default=-1) + 1
    return min((line["step"] for line in gone), default=after_kept)


def _scalars(step: int, values: Mapping[str, Any]) -> bytes:
    parts = [
        _field(_FIRST, _field(_FIRST, name.encode()) + _SIMPLE_VALUE.pack(0x15, _single(value)))
        for name, value in values.items()
        if name not in _NO_METRICS
    ]
    return _event(step, _SUMMARY, b"".join(parts))


def _event(step: int, key: bytes, content: bytes) -> bytes:
    return _WALL_TIME.pack(9, time.time()) + _STEP + encode_varint(step) + _field(key, content)


def _field(key: bytes, content: bytes) -> bytes:
    return key + encode_varint(len(content)) + content


def _single(value: float | str) -> float:
    """Return a number that the four bytes of an event can hold; larger ones become infinite."""
    number = float(value)
    return math.copysign(math.inf, number) if abs(number) > _LARGEST_FLOAT else number
