"""How fast a loader is, and where its time goes."""

from __future__ import annotations

import time
from dataclasses import dataclass

from trainfeed.errors import ConfigError
from trainfeed.loader._loader import DataLoader

__all__ = ["ReadMeasure", "measure_read"]


@dataclass(frozen=True)
class ReadMeasure:
    """Time and rates of reading some epochs; seconds of the consumer, except for ``load_s``.

    Attributes:
        epochs: Number of epochs that were read.
        samples: Number of samples in all these epochs.
        seconds: From the first request to the end.
        first_batch_s: From the first request to the first batch.
        samples_per_s: Rate over all epochs.
        bytes_per_s: Bytes of the arrays in the batches per second, over all epochs.
        best_samples_per_s: Rate of the fastest epoch.
        load_s: Reading, verifying and decoding windows; of all threads and processes together.
        wait_s: Waiting for windows; without threads and workers, loading them.
        assemble_s: Putting batches together from windows.
        rest_s: Cutting batches and handing them over.
        stall_fraction: Share of the time that was spent waiting.
        rereads: Number of reads that were repeated.
    """

    epochs: int
    samples: int
    seconds: float
    first_batch_s: float
    samples_per_s: float
    bytes_per_s: float
    best_samples_per_s: float
    load_s: float
    wait_s: float
    assemble_s: float
    rest_s: float
    stall_fraction: float
    rereads: int


def measure_read(loader: DataLoader, *, epochs: int = 3) -> ReadMeasure:
    """Read whole epochs as fast as they come.

    Args:
        loader: The loader to read; use a new one, because its counters are reported as they are.
        epochs: Number of epochs.

    Raises:
        ConfigError: ``epochs`` is below 1.
    """
    if epochs < 1:
        raise ConfigError(f"expected epochs from 1 on, got {epochs}")
    start_s = time.perf_counter()
    first_s: float | None = None
    best = 0.0
    for _ in range(epochs):
        epoch_s, rows = time.perf_counter(), 0
        for batch in loader:
            first_s = first_s or time.perf_counter() - start_s
            rows += batch.num_rows
        best = max(best, rows / (time.perf_counter() - epoch_s))
    seconds = time.perf_counter() - start_s
    report = loader.report()
    return ReadMeasure(
        epochs=epochs,
        samples=report.samples,
        seconds=seconds,
        first_batch_s=first_s or 0.0,
        samples_per_s=report.samples / seconds,
        bytes_per_s=report.bytes / seconds,
        best_samples_per_s=best,
        load_s=report.load_s,
        wait_s=report.wait_s,
        assemble_s=report.assemble_s,
        rest_s=max(0.0, seconds - report.wait_s - report.assemble_s),
        stall_fraction=min(1.0, report.wait_s / seconds),
        rereads=report.rereads,
    )
