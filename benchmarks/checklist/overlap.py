"""How much does reading ahead gain, and how soon is a failure told?

Question: do loading and computing overlap in each of the ways to read ahead; is a load that holds
the interpreter lock faster in a process; how long is a failure on its way to the consumer?
Method: an item takes 10 ms to load, a step 10 ms; both sleep, so that neither needs a core. Plain
loops and the ways take turns for --rounds rounds; a figure is the median. Of failures, the time
from the moment before the fault to the exception in the consumer, the largest of --rounds.

    PYTHONPATH=include python benchmarks/checklist/overlap.py [--rounds 5]
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import shared_memory
from typing import Any

import numpy as np

from trainfeed.compat.paddle.loading import GeneratorLoader
from trainfeed.decorators import buffered, multiprocess_reader, xmap_readers
from trainfeed.loader import DataLoader

NUM_ITEMS = 192
LOAD_S = STEP_S = 0.01
BUSY_ITEMS = 40


class Slow:
    """A map-style set whose samples take ``LOAD_S`` each."""

    def __len__(self) -> int:
        """Return how many samples there are."""
        return NUM_ITEMS

    def __getitem__(self, i: int) -> dict[str, Any]:
        """Return a sample."""
        time.sleep(LOAD_S)
        return {"x": np.full(4, i)}


def slow() -> Iterator[tuple[Any, ...]]:
    """Read samples that take ``LOAD_S`` each."""
    for i in range(NUM_ITEMS):
        time.sleep(LOAD_S)
        yield (np.full(4, i),)


def numbers() -> Iterator[int]:
    """Read numbers, which take no time."""
    return iter(range(NUM_ITEMS))


def load(i: int) -> int:
    """Take as long as a sample does."""
    time.sleep(LOAD_S)
    return i


def from_generator(source: Any, *, use_multiprocess: bool, capacity: int = 8) -> Iterable[Any]:
    """Make a loader of batches of one sample."""
    loader = GeneratorLoader.from_generator(capacity=capacity, use_multiprocess=use_multiprocess)
    return loader.set_sample_generator(source, 1)


def consume(items: Iterable[Any]) -> float:
    """Return the seconds of a pass whose every item is followed by a step."""
    start_s, count = time.perf_counter(), 0
    for _ in items:
        time.sleep(STEP_S)
        count += 1
    if count != NUM_ITEMS:
        raise RuntimeError(f"{count} items")
    return time.perf_counter() - start_s


STALLS: dict[str, list[float]] = {}


def of_loader(name: str, **options: int) -> float:
    """Return the seconds of a pass of the DataLoader, and note which share of them it waited."""
    with DataLoader(Slow(), 1, prefetch=4, **options) as loader:
        seconds = consume(loader)
        STALLS.setdefault(name, []).append(loader.report().stall_fraction)
        return seconds


WAYS: dict[str, Callable[[], float]] = {
    "no reading ahead": lambda: consume(slow()),
    "buffered(…, 8)": lambda: consume(buffered(slow, 8)()),
    "xmap_readers, 2 threads": lambda: consume(xmap_readers(load, numbers, 2, 8, order=True)()),
    "from_generator, thread": lambda: consume(from_generator(slow, use_multiprocess=False)),
    "from_generator, child process": lambda: consume(from_generator(slow, use_multiprocess=True)),
    "DataLoader, inline": lambda: of_loader("DataLoader, inline"),
    "DataLoader, 1 thread": lambda: of_loader("DataLoader, 1 thread", num_threads=1),
    "DataLoader, 2 threads": lambda: of_loader("DataLoader, 2 threads", num_threads=2),
}


def busy() -> Iterator[tuple[Any, ...]]:
    """Read samples that keep the interpreter lock for about 10 ms each."""
    for i in range(BUSY_ITEMS):
        total = 0
        for number in range(200_000):
            total += number ^ i
        yield (np.array([total]),)


def busy_seconds(*, use_multiprocess: bool) -> float:
    """Return the seconds of a pass over ``busy`` whose steps are Python code too."""
    start_s, total = time.perf_counter(), 0
    for _ in from_generator(busy, use_multiprocess=use_multiprocess):
        for number in range(200_000):
            total += number
    return time.perf_counter() - start_s


class Clock:
    """A moment that a child process notes for its parent."""

    def __init__(self) -> None:
        self._memory = shared_memory.SharedMemory(create=True, size=8)
        self._value = np.ndarray((1,), np.float64, self._memory.buf)

    def note(self) -> None:
        """Note this moment."""
        self._value[0] = time.monotonic()

    def since(self) -> float:
        """Return the seconds since the moment."""
        return time.monotonic() - float(self._value[0])

    def close(self) -> None:
        """Give the memory back."""
        del self._value
        self._memory.close()
        self._memory.unlink()


def fail(clock: Clock, how: str) -> None:
    """Note the moment, and fail."""
    clock.note()
    if how == "exception":
        raise ZeroDivisionError
    os.kill(os.getpid(), signal.SIGKILL)


def failing(clock: Clock, how: str) -> Callable[[], Iterator[tuple[Any, ...]]]:
    """Return a reader that fails after five samples."""

    def read() -> Iterator[tuple[Any, ...]]:
        for i in range(5):
            yield (np.full(4, i),)
        fail(clock, how)

    return read


def failing_map(clock: Clock) -> Callable[[int], int]:
    """Return a mapper that fails at the sixth sample."""

    def mapper(i: int) -> int:
        if i == 5:
            fail(clock, "exception")
        return i

    return mapper


FAULTS: dict[str, Callable[[Clock], Iterable[Any]]] = {
    "exception in a mapper of xmap_readers": lambda clock: xmap_readers(
        failing_map(clock), numbers, 2, 4, order=True
    )(),
    "exception in a reader of multiprocess_reader": lambda clock: multiprocess_reader(
        [failing(clock, "exception")]
    )(),
    "SIGKILL of a process of multiprocess_reader": lambda clock: multiprocess_reader(
        [failing(clock, "kill")]
    )(),
    "exception in from_generator, thread": lambda clock: from_generator(
        failing(clock, "exception"), use_multiprocess=False
    ),
    "exception in from_generator, child process": lambda clock: from_generator(
        failing(clock, "exception"), use_multiprocess=True
    ),
    "SIGKILL in from_generator, child process": lambda clock: from_generator(
        failing(clock, "kill"), use_multiprocess=True
    ),
}


def told_after(make: Callable[[Clock], Iterable[Any]]) -> float:
    """Return the seconds from a fault to the exception in the consumer."""
    clock = Clock()
    try:
        try:
            for _ in make(clock):
                pass
        except Exception:  # noqa: BLE001 (whatever it is, it has arrived)
            return clock.since()
        raise RuntimeError("no exception")
    finally:
        clock.close()


def main() -> None:
    """Measure and print Markdown tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    times: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(rounds):
        for name, way in WAYS.items():
            times[name].append(way())
    plain = statistics.median(times["no reading ahead"])
    print("| way | seconds | plain loop / this | share spent waiting |")
    print("| --- | ---: | ---: | ---: |")
    for name, found in times.items():
        median = statistics.median(found)
        share = f"{statistics.median(STALLS[name]):.2f}" if name in STALLS else ""
        print(f"| {name} | {median:.2f} | {plain / median:.2f} | {share} |")
    lock = [[busy_seconds(use_multiprocess=way) for way in (False, True)] for _ in range(rounds)]
    for word, chosen in (("median", statistics.median), ("least", min)):
        thread, process = (chosen(column) for column in zip(*lock, strict=True))
        gain = thread / process - 1
        print(f"lock-bound, {word}: thread {thread:.2f} s, process {process:.2f} s: {gain:+.0%}")
    for name, make in FAULTS.items():
        worst = max(told_after(make) for _ in range(rounds))
        print(f"{name}: at most {math.ceil(worst * 1e3)} ms")


if __name__ == "__main__":
    main()
