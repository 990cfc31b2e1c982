"""How fast a loader is, and where its time goes."""

from __future__ import annotations

import time
from dataclasses import dataclass

from trainfeed.errors import ConfigError
from trainfeed.loader._loader import DataLoader

__all__ = ["ReadMeasure", "measure_read"]


@dataclass(frozen=True)
class ReadMeasure:
    """What reading some epochs took. Seconds are the consumer's, but for ``load_s``.

    Attributes:
        epochs: How many were read.
        samples: Samples of all of them.
        seconds: From the first request to the end.
        first_batch_s: From the first request to the first batch.
        samples_per_s: Rate over all epochs.
        bytes_per_s: Bytes of arrays handed over, likewise.
        best_samples_per_s: Rate of the fastest epoch.
        load_s: Reading, verifying and decoding windows; of all threads and processes together.
        wait_s: Waiting for windows; loading them, where nobody loads ahead.
        assemble_s: Putting batches together from windows.
        rest_s: Cutting batches and handing them over.
        stall_fraction: Share of the time that was spent waiting.
        rereads: How often a read was tried again.
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
        loader: What to read; its figures should be fresh.
        epochs: How many.

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
