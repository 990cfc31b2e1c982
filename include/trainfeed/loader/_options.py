"""The settings of a loader, checked when it is made."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from numbers import Real
from typing import Final, TypeVar

from trainfeed.errors import ConfigError
from trainfeed.loader.files import DEFAULT_READ_DEADLINE_S
from trainfeed.loader.order import DEFAULT_WINDOW_BYTES, RankShare, Tail, lanes_for
from trainfeed.loader.sources import Verify
from trainfeed.loader.state import LARGEST, LARGEST_SEED, MOST_LANES, LoaderReport, Stretches
from trainfeed.whole_numbers import whole

__all__ = ["DEFAULT_TIMEOUT_S", "LoaderOptions", "enum_of", "refuse_names"]

_Enum = TypeVar("_Enum", bound=StrEnum)

# A window usually takes milliseconds; samples that take seconds each need a higher timeout_s.
DEFAULT_TIMEOUT_S: Final = 120.0

_TENSORS: Final = "give the loader to trainfeed.adapters.torch, which yields tensors to pin or move"
_PADDLE: Final = "give the loader to trainfeed.adapters.paddle, which yields tensors"
_WORKERS: Final = "its workers start without a fork and stay until close()"
# Arguments of other libraries' loaders, and their replacements here.
_REMEDIES: Final = {
    "drop_last": 'write tail="drop"; see Tail for what else may become of the last samples',
    "sampler": "it computes the order itself; write shuffle=True and seed, rank and world_size",
    "batch_sampler": "it computes the order itself; write batch_size, shuffle=True and seed, rank"
    " and world_size",
    "collate_fn": "it stacks samples field by field; let __getitem__ return what fits together",
    "pin_memory": _TENSORS,
    "pin_memory_device": _TENSORS,
    "prefetch_factor": "write prefetch, which counts windows of all workers together",
    "timeout": "write timeout_s",
    "generator": "write seed",
    "persistent_workers": _WORKERS,
    "multiprocessing_context": _WORKERS,
    "worker_init_fn": "prepare what samples need in __getitem__, or in __setstate__ of the dataset",
    "places": _PADDLE,
    "feed_list": _PADDLE,
    "return_list": _PADDLE,
    "use_shared_memory": "workers always use it; max_bytes bounds it",
    "use_buffer_reader": "write num_threads or num_workers, which load ahead",
}


@dataclass(frozen=True)
class LoaderOptions:
    """See ``DataLoader``; the names are the same, but for ``skips``, which are those of ``skip``.

    Raises:
        ConfigError: A setting is out of range, or two contradict each other.
    """

    batch_size: int = 1
    shuffle: bool = False
    seed: int = 0
    share: RankShare = field(default_factory=lambda: RankShare(0, 1))
    tail: Tail = Tail.SHORT
    num_workers: int = 0
    num_threads: int = 0
    prefetch: int | None = None
    copy: bool = False
    verify: Verify = Verify.FIRST
    window_bytes: int = DEFAULT_WINDOW_BYTES
    lanes: int | None = None
    max_bytes: int | None = None
    timeout_s: float = DEFAULT_TIMEOUT_S
    read_deadline_s: float = DEFAULT_READ_DEADLINE_S
    max_skipped_chunks: int = 0
    epochs: int | None = None
    skips: Stretches = ()
    on_report: Callable[[LoaderReport], None] | None = None

    def __post_init__(self) -> None:
        self._check_least("batch_size", 1)
        self._check_least("num_workers", 0)
        self._check_least("num_threads", 0)
        self._check_least("window_bytes", 1, LARGEST)
        self._check_least("seed", -LARGEST_SEED, LARGEST_SEED)
        self._check_flag("shuffle")
        self._check_flag("copy")
        self._check_seconds("timeout_s", above=True)
        self._check_seconds("read_deadline_s")
        if self.max_bytes is not None:
            self._check_least("max_bytes", 1)
        self._check_least("max_skipped_chunks", 0)
        self._check_lanes()
        for name in ("prefetch", "epochs"):
            if getattr(self, name) is not None:
                self._check_least(name, 1)
        if self.on_report is not None and not callable(self.on_report):
            raise ConfigError(f"expected on_report as a function, got {self.on_report!r}")
        if self.num_workers and self.num_threads:
            raise ConfigError(
                "expected num_workers or num_threads, got both; threads are cheaper where decoding"
                " leaves the interpreter lock, processes where samples are made by Python code"
            )

    @property
    def order_lanes(self) -> int:
        """Number of lanes of a new order; 1 in natural order."""
        if not self.shuffle:
            return 1
        return lanes_for(self.share.world_size) if self.lanes is None else self.lanes

    def ahead(self, period: int) -> int:
        """Return how many windows are loaded ahead of need.

        Args:
            period: Number of lanes that the rank reads; half of them may need a window at the same
                time.
        """
        if self.prefetch is not None:
            return self.prefetch
        return max(2 * max(self.num_workers, self.num_threads), -(-period // 2)) + 2

    def _check_least(self, name: str, least: int, most: int | None = None) -> None:
        object.__setattr__(self, name, whole(name, getattr(self, name), least, most))

    def _check_lanes(self) -> None:
        if self.lanes is None:
            return
        self._check_least("lanes", 1, MOST_LANES)
        if not self.shuffle:
            raise ConfigError(
                f"expected lanes with shuffle=True only, got {self.lanes}; the natural order has"
                " none: leave lanes out"
            )

    def _check_flag(self, name: str) -> None:
        value = getattr(self, name)
        if value not in (True, False):
            raise ConfigError(f"expected {name} as True or False, got {value!r}")
        object.__setattr__(self, name, bool(value))

    def _check_seconds(self, name: str, *, above: bool = False) -> None:
        value = getattr(self, name)
        seconds = float(value) if isinstance(value, Real) else math.nan
        # The comparison is negated so that NaN, which compares false with everything, is refused
        # too.
        if not (seconds > 0 if above else seconds >= 0):
            what = "above 0" if above else "from 0 on"
            raise ConfigError(f"expected {name} as seconds {what}, got {value!r}")


def refuse_names(names: Iterable[str]) -> None:
    """Refuse arguments that a loader does not have.

    Raises:
        ConfigError: Another library's loader has this argument; the message names the replacement.
        TypeError: The argument is unknown.
    """
    for name in names:
        if name in _REMEDIES:
            raise ConfigError(f"trainfeed's DataLoader has no {name}: {_REMEDIES[name]}")
        raise TypeError(f"DataLoader() got an unexpected keyword argument {name!r}")


def enum_of(kind: type[_Enum], name: str, value: str) -> _Enum:
    """Return the member of an enumeration.

    Raises:
        ConfigError: The enumeration has no such member.
    """
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(kind)
        raise ConfigError(f"expected {name} as one of {known}, got {value!r}") from None
