"""Random entries of one partition: a regular stream, and everything that disturbs its stamps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.model.partition_log import NEVER, Entries

__all__ = ["DAY", "HOUR", "MINUTE", "Windows", "draw_entries"]

SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
YEAR = 365 * DAY

# Records of the regular stream in one window, and how often a stream has so many.
_RATES = {1: 0.08, 3: 0.12, 10: 0.15, 40: 0.2, 300: 0.4, 1500: 0.05}
_PAUSES = ("none", "none", "midnight", "empty", "idle")
_AHEAD = ("hours", "years", "micro")
_BEHIND = ("seconds", "straggle")


@dataclass(frozen=True)
class Windows:
    """``count`` windows of ``length`` milliseconds from ``first`` on, in which records arrive."""

    first: int
    length: int
    count: int

    @property
    def end(self):
        return self.start(self.count)

    def start(self, index):
        return self.first + index * self.length

    def index(self, times):
        """Return which window each time lies in; windows outside have numbers as well."""
        return (times - self.first) // self.length


@dataclass
class _Part:
    """Records before they are merged: nominal times, stamps, whether they are of the stream."""

    nominal: np.ndarray
    stamps: np.ndarray
    is_main: bool


def draw_entries(rng, windows, life, *, bulk, harsh):
    """Return the entries of a partition.

    Args:
        rng: The log's generator.
        windows: When records arrive.
        life: When the partition was created and deleted: records arrive in between.
        bulk: At least so many records in a stretch without believable stamps; 0 for none.
        harsh: Whether a burst may take as long as a window, and go on among all other records.
    """
    main = _regular(rng, windows)
    parts = [main, *_bursts(rng, windows, harsh=harsh), *_strays(rng, windows, len(main.nominal))]
    if bulk:
        parts.append(_stretch(rng, windows, bulk))
    nominal = np.concatenate([part.nominal for part in parts])
    stamps = np.concatenate([part.stamps for part in parts])
    is_main = np.concatenate([np.full(len(part.nominal), part.is_main) for part in parts])
    is_main &= ~_unstamp(rng, stamps)
    order = np.argsort(nominal, kind="stable")
    order = order[(nominal[order] >= life[0]) & (nominal[order] < life[1])]
    return _appended(nominal[order], stamps[order], is_main[order], int(rng.integers(1, 5000)))


def _appended(nominal, stamps, is_main, delay):
    count = len(nominal)
    return Entries(
        stamps=stamps,
        arrived=nominal + delay,
        nominal=nominal,
        is_main=is_main,
        is_marker=np.zeros(count, bool),
        committed=np.ones(count, bool),
        txn=np.full(count, -1),
        txn_end=np.zeros(count, np.int64),
        compacted=np.full(count, NEVER),
    )


def _regular(rng, windows):
    """Return the stream: some jitter, perhaps pauses over the edges, empty windows, or one only."""
    rate = rng.choice(list(_RATES), p=list(_RATES.values()))
    counts = rng.poisson(rate, windows.count) if rate > 3 else np.full(windows.count, rate)
    pause = rng.choice(_PAUSES)
    if pause == "empty":
        counts[rng.random(windows.count) < 0.4] = 0
    elif pause == "idle":
        counts[1:] = 0
    edge = windows.length // 4 if pause == "midnight" else 0
    starts = windows.first + np.repeat(np.arange(windows.count), counts) * windows.length
    nominal = starts + rng.integers(edge, windows.length - edge, len(starts))
    nominal.sort()
    jitter = rng.choice([1, SECOND, 10 * SECOND, 5 * MINUTE])
    return _Part(nominal, nominal - (rng.exponential(jitter, len(nominal))).astype(int), True)


def _bursts(rng, windows, *, harsh):
    """Yield producers with a wrong clock: 1 to 5,000 records in a row or among the others."""
    spreads = [1, SECOND, MINUTE, *([HOUR, windows.length] if harsh else [])]
    for _ in range(rng.choice([0, 1, 2, 3], p=[0.4, 0.3, 0.2, 0.1])):
        size = int(10 ** rng.uniform(0, 3.7))
        spread = int(rng.choice(spreads))
        at = rng.integers(windows.first, windows.end - spread)
        nominal = np.sort(at + rng.integers(0, spread, size))
        kind = rng.choice(_AHEAD if rng.random() < 0.8 else _BEHIND)
        yield _Part(nominal, _disturbed(rng, nominal, kind), False)


def _strays(rng, windows, num_regular):
    """Yield single records that are late, or ahead."""
    for kind, share in (("straggle", 0.05), ("hours", 0.01), ("years", 0.005)):
        if rng.random() < 0.5:
            count = rng.binomial(num_regular, rng.random() * share) + int(rng.random() < 0.3)
            nominal = rng.integers(windows.first, windows.end, count)
            late = rng.exponential(rng.choice([HOUR, DAY]), count).astype(int)
            stamps = nominal - late if kind == "straggle" else _disturbed(rng, nominal, kind)
            yield _Part(nominal, stamps, False)


def _stretch(rng, windows, size):
    """Return very many records that are no evidence, in some hours."""
    spread = int(rng.integers(MINUTE, windows.length))
    at = rng.integers(windows.first, windows.end - spread)
    nominal = np.sort(at + rng.integers(0, spread, size))
    kind = rng.choice(["years", "micro", "none"])
    stamps = np.full(size, -1) if kind == "none" else _disturbed(rng, nominal, kind)
    return _Part(nominal, stamps, False)


def _disturbed(rng, nominal, kind):
    """Return the stamps that a wrong clock gives at these times."""
    match kind:
        case "hours":
            return nominal + int(rng.integers(1, 72)) * HOUR
        case "years":
            return nominal + int(rng.integers(1, 75)) * YEAR
        case "micro":
            return nominal * 1000
        case "seconds":
            return nominal // 1000
        case _:
            return nominal - int(rng.integers(1, 120)) * HOUR


def _unstamp(rng, stamps):
    """Take stamps away in place: none, some, a stretch, or all; return which."""
    kind = rng.choice(["none", "some", "stretch", "all"], p=[0.75, 0.14, 0.1, 0.01])
    gone = np.zeros(len(stamps), bool)
    if kind == "some":
        gone = rng.random(len(stamps)) < rng.choice([0.001, 0.05, 0.5])
    elif kind == "stretch":
        # By time, because that is how they will lie in the log.
        low, high = np.sort(rng.integers(0, len(stamps) + 1, 2))
        gone[np.argsort(stamps, kind="stable")[low:high]] = True
    elif kind == "all":
        gone[:] = True
    stamps[gone] = -1
    return gone
