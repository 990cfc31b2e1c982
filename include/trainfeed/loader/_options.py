"""The settings of a loader, checked when it is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeVar

from trainfeed.errors import ConfigError
from trainfeed.loader._cut import RankShare, Tail
from trainfeed.loader._files import DEFAULT_READ_DEADLINE_S
from trainfeed.loader._order import DEFAULT_WINDOW_BYTES
from trainfeed.loader._shards import Verify
from trainfeed.loader._stats import LoaderReport

__all__ = ["DEFAULT_MAX_BYTES", "DEFAULT_TIMEOUT_S", "LoaderOptions", "enum_of"]

_Enum = TypeVar("_Enum", bound=StrEnum)

# All slots of worker processes together; four times the windows of the default order.
DEFAULT_MAX_BYTES: Final = 256 << 20
# A window takes milliseconds. Who waits longer has samples that take seconds each, and says so.
DEFAULT_TIMEOUT_S: Final = 120.0


@dataclass(frozen=True)
class LoaderOptions:
    """See ``DataLoader``; the names are the same.

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
    max_bytes: int = DEFAULT_MAX_BYTES
    timeout_s: float = DEFAULT_TIMEOUT_S
    read_deadline_s: float = DEFAULT_READ_DEADLINE_S
    on_report: Callable[[LoaderReport], None] | None = None

    def __post_init__(self) -> None:
        self._check_least("batch_size", 1)
        self._check_least("num_workers", 0)
        self._check_least("num_threads", 0)
        self._check_least("window_bytes", 1)
        self._check_least("max_bytes", 1)
        if self.prefetch is not None:
            self._check_least("prefetch", 1)
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise ConfigError(f"expected seed as a whole number, got {self.seed!r}")
        if self.timeout_s <= 0 or self.read_deadline_s < 0:
            raise ConfigError(
                f"expected timeout_s above 0 and read_deadline_s from 0 on, got {self.timeout_s}"
                f" and {self.read_deadline_s}"
            )
        if self.num_workers and self.num_threads:
            raise ConfigError(
                "expected num_workers or num_threads, got both; threads are cheaper where decoding"
                " leaves the interpreter lock, processes where samples are made by Python code"
            )

    def ahead(self, period: int) -> int:
        """Return how many windows are loaded ahead of need.

        Args:
            period: How many lanes are read; half of them may need a window at the same time.
        """
        if self.prefetch is not None:
            return self.prefetch
        return max(2 * max(self.num_workers, self.num_threads), -(-period // 2)) + 2

    def _check_least(self, name: str, least: int) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ConfigError(f"expected {name} as a whole number from {least} on, got {value!r}")


def enum_of(kind: type[_Enum], name: str, value: str) -> _Enum:
    """Return the member of an enumeration.

    Raises:
        ConfigError: It has no such member.
    """
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(kind)
        raise ConfigError(f"expected {name} as one of {known}, got {value!r}") from None
