"""The values that a loader hands out: batches, its state, its report; and stretches left out."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainfeed.core.canonical_json import JsonFields
from trainfeed.core.thread_ties import new_lock
from trainfeed.core.whole_numbers import whole
from trainfeed.errors import ConfigError, LoaderError

# --- Stretches of the order that a loader leaves out, as after a loss spike

# Half-open, ascending, with samples between them.
Stretches: TypeAlias = tuple[tuple[int, int], ...]
# What users write: one stretch, or several.
Skip: TypeAlias = Mapping[str, int] | Sequence[Mapping[str, int]]

# A state from elsewhere shall not cost memory.
_MOST: Final = 1000
_LARGEST: Final = 1 << 62


def stretches_of(skip: Skip | None) -> Stretches:
    """Return what ``skip`` of a loader says.

    Args:
        skip: ``{"from": a, "to": b}`` leaves out samples a to b - 1; or several of them.

    Raises:
        ConfigError: It is something else, or a stretch without a sample.
    """
    if skip is None:
        return ()
    several: object = [skip] if isinstance(skip, Mapping) else skip
    if not isinstance(several, list | tuple):
        raise ConfigError(_expected(skip))
    return merged(_pair(each) for each in several)


def merged(stretches: Iterable[Sequence[Any]]) -> Stretches:
    """Return stretches in order, those that touch or overlap as one.

    Raises:
        ConfigError: One has no sample, or there are too many.
    """
    found: list[tuple[int, int]] = []
    for start, stop in sorted(_checked(*stretch) for stretch in stretches):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(stop, found[-1][1])
        else:
            found.append((start, stop))
    if len(found) > _MOST:
        raise ConfigError(f"expected at most {_MOST} stretches to skip, got {len(found)}")
    return tuple(found)


def kept_parts(stretches: Stretches, first: int, total: int) -> Iterator[tuple[int, int]]:
    """Yield the positions of an epoch, half-open, that are left.

    Args:
        stretches: What is left out of the run.
        first: Number of the epoch's first sample in the run.
        total: Samples of the epoch.
    """
    start = 0
    for stretch in stretches:
        begin, end = (min(max(0, place - first), total) for place in stretch)
        if start < begin:
            yield start, begin
        start = max(start, end)
    if start < total:
        yield start, total


def check_ahead(stretches: Stretches, known: Stretches, place: int) -> None:
    """Refuse stretches whose samples were handed over before a state was taken.

    Args:
        stretches: What a loader is told to leave out.
        known: What the state says was left out.
        place: Samples of the run that lie before the state.

    Raises:
        ConfigError: One begins before the state, which does not know of it.
    """
    for start, stop in stretches:
        behind = start, min(stop, place)
        is_known = any(begin <= behind[0] and behind[1] <= end for begin, end in known)
        if behind[0] < behind[1] and not is_known:
            raise ConfigError(
                f"expected a skip from sample {place} on, where the state stands, got one from"
                f" {start}: samples before the state were handed over already; load a state from"
                f" before sample {start}, or skip from {place} on"
            )


def _pair(value: object) -> tuple[object, object]:
    if not isinstance(value, Mapping) or value.keys() != {"from", "to"}:
        raise ConfigError(_expected(value))
    return value["from"], value["to"]


def _checked(start: object, stop: object) -> tuple[int, int]:
    first = whole("the start of a skip", start, 0, _LARGEST - 1)
    return first, whole("the end of a skip", stop, first + 1, _LARGEST)


def _expected(got: object) -> str:
    return (
        'expected skip as {"from": a, "to": b}, numbers of samples from the start of the run, or a'
        f" list of these, got {got!r}"
    )


# --- The state of a loader: a few numbers, because the order is computed and never stored

# Pairs of a position and the shares of a mixture that apply from it on.
Weights: TypeAlias = tuple[tuple[int, tuple[int, ...]], ...]

_VERSION: Final = 1
_NUMBERS: Final = ("seed", "epoch", "position", "lanes", "window")
# Limits for the numbers of a state; a seed may be negative too.
LARGEST: Final = 1 << 62
LARGEST_SEED: Final = (1 << 64) - 1
# More than any number of ranks needs: a state from an untrusted place must not cost memory.
MOST_LANES: Final = 1 << 16
# Ranges of the numbers whose range is not 0 to ``LARGEST``.
_LIMITS: Final = {"seed": (-LARGEST_SEED, LARGEST_SEED), "lanes": (1, MOST_LANES)}


@dataclass(frozen=True, slots=True)
class LoaderState(JsonFields, also=("version",), optional=("weights", "skips")):
    """A point between two global batches.

    Attributes:
        digest: Identifies content and layout of the data set; 16 hex digits.
        seed: Seed of the order.
        epoch: Number of the epoch, from 0.
        position: Number of samples of the epoch that all ranks together have handed over.
        lanes: Number of lanes; 1 in natural order.
        window: Bytes of one window of every lane together; 0 in natural order.
        weights: For a mixture the weights and the positions from which they apply, as ``(position,
            (numerator, …))``; otherwise empty.
        skips: Stretches of the run that are left out, as ``(from, to)``: samples of all ranks from
            the start of epoch 0 on; usually empty.
    """

    version: ClassVar = _VERSION
    digest: str
    seed: int
    epoch: int
    position: int
    lanes: int
    window: int
    weights: Weights = ()
    skips: Stretches = ()

    def state(self) -> LoaderState:
        """Return this object, so that a state can stand in for ``Standing``."""
        return self

    @classmethod
    def from_json(cls, value: object) -> LoaderState:
        """Return the state that ``to_json`` gave as JSON values.

        Raises:
            ConfigError: ``value`` is not a state, or has an unknown version.
        """
        if not isinstance(value, Mapping):
            raise ConfigError(f"expected a loader's state as a mapping, got {type(value).__name__}")
        if value.get("version") != _VERSION:
            raise ConfigError(
                f"expected a loader's state of version {_VERSION}, got {value.get('version')!r};"
                " read it with the version of trainfeed that wrote it"
            )
        names = {"version", "digest", *_NUMBERS}
        if not names <= value.keys() <= names | {"weights", "skips"}:
            raise ConfigError(
                f"expected a loader's state with {sorted(names)}, got {sorted(map(str, value))}"
            )
        digest = value["digest"]
        if not isinstance(digest, str):
            raise ConfigError(f"expected the digest of a state as text, got {digest!r}")
        numbers = {name: _number(name, value[name]) for name in _NUMBERS}
        return cls(
            digest=digest,
            **numbers,
            weights=_weights(value.get("weights", [])),
            skips=_skips(value.get("skips", [])),
        )


def _number(name: str, value: object) -> int:
    least, most = _LIMITS.get(name, (0, LARGEST))
    return whole(f"{name} of a state", value, least, most)


def _weights(value: object) -> Weights:
    if not isinstance(value, list):
        raise ConfigError(f"expected weights of a state as a list, got {value!r}")
    entries = []
    for entry in value:
        if not isinstance(entry, list) or len(entry) != 2 or not isinstance(entry[1], list):
            raise ConfigError(f"expected [position, [weight, …]] in a state, got {entry!r}")
        shares = tuple(_number("weight", share) for share in entry[1])
        entries.append((_number("position", entry[0]), shares))
    return tuple(entries)


def _skips(value: object) -> Stretches:
    if not isinstance(value, list) or any(
        not isinstance(entry, list) or len(entry) != 2 for entry in value
    ):
        raise ConfigError(f"expected skips of a state as a list of [from, to], got {value!r}")
    return merged(value)


# --- The batches that a loader hands over


class Standing(Protocol):
    """An object that can compute the state of a loader at one point."""

    def state(self) -> LoaderState:
        """Return the state."""


class Batch(dict[str, NDArray[Any]]):
    """Field → array of shape ``(b, *S)``; masked where an optional field is absent.

    Fields whose size varies are arrays of shape ``(b,)`` and dtype object, which hold bytes, str,
    arrays or None. A caller may keep any array, and any slice of it, as long as needed.

    A tool that maps a function over the arrays makes a new batch of the fields alone,
    ``type(batch)(fields)``. Such a batch has no state and does not know its padded rows: ask the
    batch that the loader handed over.
    """

    __slots__ = ("_num_padded", "_standing")

    def __init__(
        self,
        fields: Mapping[str, NDArray[Any]] | Iterable[tuple[str, NDArray[Any]]] = (),
        standing: Standing | None = None,
        num_padded: int = 0,
    ) -> None:
        super().__init__(fields)
        self._standing = standing
        self._num_padded = num_padded

    @property
    def num_rows(self) -> int:
        """Number of rows, including padded ones."""
        return len(next(iter(self.values()))) if self else 0

    @property
    def num_padded(self) -> int:
        """Number of rows at the end that only fill the batch.

        Raises:
            LoaderError: The batch was made of the fields of another one.
        """
        self._handed_over()
        return self._num_padded

    @property
    def valid(self) -> NDArray[np.bool_]:
        """True for rows that count, False for padded rows; shape ``(b,)``.

        Raises:
            LoaderError: The batch was made of the fields of another one.
        """
        valid = np.ones(self.num_rows, bool)
        valid[self.num_rows - self.num_padded :] = False
        return valid

    @property
    def standing(self) -> Standing:
        """The object that computes the loader's state right after this batch.

        Raises:
            LoaderError: The batch was made of the fields of another one.
        """
        return self._handed_over()

    @property
    def state(self) -> LoaderState:
        """The state of the loader right after this batch.

        Raises:
            LoaderError: The batch was made of the fields of another one.
        """
        return self.standing.state()

    def _handed_over(self) -> Standing:
        if self._standing is None:
            raise LoaderError(
                "expected a batch as the loader returned it, got one that was made from its"
                " fields, perhaps by a tool that maps a function over arrays; take state, valid"
                " and num_padded before that, or give the tool trainfeed.adapters, whose batches"
                " are plain mappings with a column `valid`"
            )
        return self._standing

    def __reduce__(self) -> tuple[object, ...]:
        standing = None if self._standing is None else self.state
        return Batch, (dict(self), standing, self._num_padded)


# --- Counters and times of a loader

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
        rereads: Number of repetitions of reads, in all processes.
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
            # Calls without samples only add time.
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
