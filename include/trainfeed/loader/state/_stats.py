"""Counters and times of a loader."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

from trainfeed.errors import ConfigError
from trainfeed.thread_ties import new_lock

__all__ = ["LoaderReport", "LoaderStats"]

_HELP: Final = {
    "batches": "Batches handed over",
    "samples": "Samples handed over, padding not counted",
    "bytes": "Bytes of arrays handed over",
    "windows": "Windows loaded",
    "load_s": "Seconds that threads or processes spent loading windows",
    "wait_s": "Seconds that the consumer waited for windows",
    "assemble_s": "Seconds spent in putting batches together",
    "elapsed_s": "Seconds since the first batch was asked for",
    "queue_depth": "Windows loaded or being loaded when the consumer last asked",
    "copied_windows": "Windows copied because the consumer held all slots",
    "oversize_windows": "Windows too large for a slot, sent through a pipe",
    "rereads": "Reads that were tried again",
    "skipped_samples": "Samples left out because their chunk is damaged",
    "lent_slots": "Slots that the consumer holds",
    "stall_fraction": "Share of the elapsed time in which the consumer waited",
}
_LABEL: Final = re.compile("[a-zA-Z_][a-zA-Z0-9_]*")
_GAUGES: Final = frozenset({"queue_depth", "lent_slots", "stall_fraction"})


@dataclass(frozen=True)
class LoaderReport:
    """The figures of a loader so far; seconds are sums over all iterators of the loader.

    Attributes:
        batches: Batches handed over.
        samples: Samples handed over, padding not counted.
        bytes: Bytes of arrays handed over.
        windows: Windows loaded.
        load_s: Seconds that threads or processes spent loading windows; may be more than
            ``elapsed_s`` when there are several. Not measured for an iterable that a thread or
            process reads.
        wait_s: Seconds that the consumer waited for windows or for an iterable; without threads
            and processes, all loading.
        assemble_s: Seconds spent in putting batches together, without waits.
        elapsed_s: Seconds since the first batch was requested.
        queue_depth: Windows that were ready or under way when the consumer last asked.
        copied_windows: Windows that were copied because the consumer held all slots.
        oversize_windows: Windows that were too large for a slot and came through a pipe.
        rereads: Number of reads that were repeated.
        skipped_samples: Samples that were left out because their chunk is damaged.
        lent_slots: Slots that the consumer holds now.
        stall_fraction: Share of the elapsed time in which the consumer waited.
    """

    batches: int = 0
    samples: int = 0
    bytes: int = 0
    windows: int = 0
    load_s: float = 0.0
    wait_s: float = 0.0
    assemble_s: float = 0.0
    elapsed_s: float = 0.0
    queue_depth: int = 0
    copied_windows: int = 0
    oversize_windows: int = 0
    rereads: int = 0
    skipped_samples: int = 0
    lent_slots: int = 0
    stall_fraction: float = 0.0

    def prometheus(self, **labels: object) -> str:
        """Return the figures in the text format that Prometheus scrapes.

        Args:
            labels: Labels that every figure gets; their names consist of letters, digits and
                underscores.

        Raises:
            ConfigError: A label has another name; Prometheus would refuse the whole text.
        """
        for name in labels:
            if not _LABEL.fullmatch(name):
                raise ConfigError(
                    "expected labels of letters, digits and underscores, no digit first, got"
                    f" {name!r}"
                )
        pairs = ",".join(f'{name}="{_escaped(str(value))}"' for name, value in labels.items())
        lines = []
        for name, value in asdict(self).items():
            kind = "gauge" if name in _GAUGES else "counter"
            full = f"trainfeed_loader_{name}" + ("" if kind == "gauge" else "_total")
            lines += [
                f"# HELP {full} {_HELP[name]}",
                f"# TYPE {full} {kind}",
                f"{full}{{{pairs}}} {value}" if pairs else f"{full} {value}",
            ]
        return "\n".join(lines) + "\n"


class LoaderStats:
    """The counters of a running loader; threads may share the object."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._figures = dict.fromkeys(_HELP, 0.0)
        self._started_s: float | None = None
        self._num_lent: Callable[[], int] = int

    def count_load(self, seconds: float, num_samples: int) -> None:
        """Count a window that was loaded."""
        with self._lock:
            self._figures["load_s"] += seconds
            self._figures["windows"] += bool(num_samples)

    def count_wait(self, seconds: float, queue_depth: int) -> None:
        """Count a wait of the consumer for a window."""
        with self._lock:
            self._figures["wait_s"] += seconds
            self._figures["queue_depth"] = queue_depth

    def count_batches(self, num_batches: int, num_samples: int, num_bytes: int) -> None:
        """Count batches that were handed over."""
        figures = self._figures
        with self._lock:
            figures["batches"] += num_batches
            figures["samples"] += num_samples
            figures["bytes"] += num_bytes

    def count_assembly(self, seconds: float) -> None:
        """Add the time of putting batches together, without waits."""
        with self._lock:
            self._figures["assemble_s"] += seconds

    @property
    def wait_s(self) -> float:
        """Seconds that the consumer has waited so far."""
        return self._figures["wait_s"]

    def count(self, name: str, by: int = 1) -> None:
        """Add to a counter of the report."""
        with self._lock:
            self._figures[name] += by

    def watch_lends(self, num_lent: Callable[[], int]) -> None:
        """Set the function that returns the number of slots that the consumer holds."""
        self._num_lent = num_lent

    def start(self) -> None:
        """Note that a batch was requested; the first call starts the clock."""
        if self._started_s is None:
            self._started_s = time.perf_counter()

    def report(self) -> LoaderReport:
        """Return the figures so far."""
        with self._lock:
            figures = dict(self._figures)
        figures["lent_slots"] = self._num_lent()
        if self._started_s is not None:
            figures["elapsed_s"] = time.perf_counter() - self._started_s
        if figures["elapsed_s"]:
            figures["stall_fraction"] = min(1.0, figures["wait_s"] / figures["elapsed_s"])
        whole: dict[str, Any] = {
            name: int(value)
            for name, value in figures.items()
            if not name.endswith(("_s", "_fraction"))
        }
        return LoaderReport(**(figures | whole))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
