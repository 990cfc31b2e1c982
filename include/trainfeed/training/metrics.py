"""The metrics of a training over time: one line of JSON per step, kept after a kill."""

from __future__ import annotations

import json
import logging
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trainfeed.core import canonical_json
from trainfeed.core.whole_numbers import whole
from trainfeed.errors import ConfigError, FormatError, NotFoundError
from trainfeed.files import os_errors, read_plain
from trainfeed.files.stores import posix
from trainfeed.training.tracking import EventFiles

# --- The metrics of one step: their names and numbers, checked

_MOST_VALUES: Final = 256
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]{0,127}")
_OURS: Final = frozenset({"step", "samples"})


def checked_metrics(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metrics of a step as values of JSON: numbers, or text for NaN and infinity.

    Raises:
        ConfigError: There are too many, a name may not be that of a metric, or a value is no
            number.
    """
    if len(values) > _MOST_VALUES:
        raise ConfigError(f"expected at most {_MOST_VALUES} metrics per step, got {len(values)}")
    return {_name(name): _number(name, value) for name, value in values.items()}


def _name(name: str) -> str:
    if name in _OURS or not _NAME.fullmatch(name):
        raise ConfigError(
            "expected names of metrics of letters, digits and _./-, at most 128, none of them"
            f" 'step' or 'samples', got {name!r}"
        )
    return name


def _number(name: str, value: Any) -> float | int | str:
    if isinstance(value, bool | str | bytes):
        raise ConfigError(f"expected metric {name!r} as a number, got {value!r}")
    if isinstance(value, int):
        return whole(f"metric {name!r}", value)
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"expected metric {name!r} as a number, got {value!r}") from error
    # JSON has no NaN and no infinity, but a reader of the log must see a loss that diverged.
    return number if math.isfinite(number) else str(number)


# --- The metrics of a training over time: one line of JSON per step, kept when the rank is killed

METRICS_LOG: Final = "metrics.jsonl"
MAX_BYTES: Final = 64 << 20
_OPEN: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Recomputed:
    """Work that was computed a second time, over all attempts of a job, as its log shows it.

    Attributes:
        steps: Number of logged steps.
        samples: Number of samples of all ranks.
    """

    steps: int = 0
    samples: int = 0


class MetricsLog:
    """The metrics log of one job; only rank 0 writes it.

    Args:
        path: The file.
        events: Event files that get the same metrics; None for none.

    Attributes:
        recomputed: Work that was computed a second time; known after ``begin``.
    """

    def __init__(self, path: Path, events: EventFiles | None = None) -> None:
        self._path = path
        self._events = events
        self._descriptor: int | None = None
        self._size = 0
        self._num_dropped = 0
        self.recomputed = Recomputed()

    @property
    def size(self) -> int:
        """Number of bytes of the file."""
        return self._size

    def begin(self, kept_bytes: int, samples: int) -> None:
        """Open the log: keep the lines before a checkpoint, count and remove those after it.

        Args:
            kept_bytes: Size of the file when the checkpoint was saved; 0 without a checkpoint.
            samples: Number of samples, over all epochs, that were read before the checkpoint.

        Raises:
            StorageError: The file cannot be read or written.
        """
        data = _read(self._path)
        kept, behind = data[:kept_bytes], data[kept_bytes:]
        if len(kept) < kept_bytes:
            logger.warning(
                "%s has %d bytes, and had %d at the checkpoint: lines of it are lost; the training"
                " goes on",
                self._path,
                len(kept),
                kept_bytes,
            )
        mark = _mark(kept, behind, samples)
        self.recomputed = Recomputed(**mark) if mark else Recomputed()
        # One replacement: with two steps, a kill between them would count twice, or not at all.
        line = _line({"recomputed": mark}) if mark and behind else b""
        if data or self._path.exists():
            posix.replace_file(self._path, kept + line)
        self._open()
        if self._events is not None:
            self._events.begin(_steps(kept), _steps(behind))

    def append(self, step: int, samples: int, values: Mapping[str, Any]) -> None:
        """Write a line. Lines that would make the file larger than 64 MiB are dropped.

        The first dropped line causes a warning.

        Args:
            step: Number of the step.
            samples: Number of samples, over all epochs, that all ranks have read.
            values: Metrics, name to number.

        Raises:
            ConfigError: A name is not allowed, or a value is no number.
            StorageError: The line could not be written.
        """
        descriptor = self._descriptor
        if descriptor is None:
            raise AssertionError("begin comes first")
        metrics = checked_metrics(values)
        line = _line({"step": step, "samples": samples, **metrics})
        if self._size + len(line) > MAX_BYTES:
            self._drop(step)
            return
        with os_errors(self._path):
            written = os.write(descriptor, line)
            if written < len(line):  # a full disk: writing the rest raises its error
                os.write(descriptor, line[written:])
        self._size += len(line)
        if self._events is not None:
            self._events.add(step, metrics)

    def sync(self) -> None:
        """Make the lines durable."""
        if self._descriptor is not None:
            with os_errors(self._path):
                os.fsync(self._descriptor)
        if self._events is not None:
            self._events.sync()

    def close(self) -> None:
        """Close the files, and warn about dropped lines; safe to call twice."""
        if self._events is not None:
            self._events.close()
        if self._num_dropped:
            logger.warning("%s: %d lines were dropped", self._path, self._num_dropped)
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    @property
    def is_open(self) -> bool:
        """Whether lines can be written."""
        return self._descriptor is not None

    def _open(self) -> None:
        self.close()
        with os_errors(self._path):
            self._descriptor = os.open(self._path, _OPEN, 0o644)
            self._size = os.fstat(self._descriptor).st_size

    def _drop(self, step: int) -> None:
        if not self._num_dropped:
            logger.warning(
                "%s is full: it holds %d bytes, %d at most; step %d and those after it are not"
                " logged; log every n-th step",
                self._path,
                self._size,
                MAX_BYTES,
                step,
            )
        self._num_dropped += 1


def _read(path: Path) -> bytes:
    """Return the complete lines of the file; b"" without a file."""
    try:
        data = read_plain(path, follow=False, max_bytes=MAX_BYTES)
    except NotFoundError:
        return b""
    return data[: data.rfind(b"\n") + 1]


def _mark(kept: bytes, behind: bytes, samples: int) -> dict[str, int]:
    """Return the counts over all attempts; empty if nothing is computed a second time.

    Args:
        kept: The lines before the checkpoint.
        behind: The lines after it, whose steps are computed again.
        samples: Number of samples that were read before the checkpoint.
    """
    lines = [_parsed(line) for line in behind.splitlines()]
    # Counts are totals, so the last one counts, before the checkpoint or after it.
    marks = [_parsed(line) for line in kept.splitlines() if b'"recomputed"' in line] + lines
    counts = [each["recomputed"] for each in marks if "recomputed" in each]
    before: dict[str, int] = counts[-1] if counts else {}
    steps = _steps(behind)
    if not before and not steps:
        return {}
    reached = max((each.get("samples", 0) for each in steps), default=samples)
    return {
        "steps": before.get("steps", 0) + len(steps),
        "samples": before.get("samples", 0) + max(0, reached - samples),
    }


def _steps(lines: bytes) -> list[dict[str, Any]]:
    return [found for line in lines.splitlines() if "step" in (found := _parsed(line))]


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        found = canonical_json.loads(line)
    except FormatError:
        return {}
    return found if isinstance(found, dict) else {}


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode() + b"\n"
