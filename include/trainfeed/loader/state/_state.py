"""The state of a loader: a few numbers, because the order is computed and never stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from trainfeed.errors import ConfigError
from trainfeed.loader.state._stretches import Stretches, merged
from trainfeed.whole_numbers import whole

__all__ = ["LARGEST", "LARGEST_SEED", "MOST_LANES", "LoaderState", "Weights"]

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
class LoaderState:
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

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        state = {
            "version": _VERSION,
            "digest": self.digest,
            "seed": self.seed,
            "epoch": self.epoch,
            "position": self.position,
            "lanes": self.lanes,
            "window": self.window,
        }
        if self.weights:
            state["weights"] = [[position, list(shares)] for position, shares in self.weights]
        if self.skips:
            state["skips"] = [list(stretch) for stretch in self.skips]
        return state

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
