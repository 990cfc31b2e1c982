"""Stretches of the order that a loader leaves out, as after a loss spike.

A stretch counts samples of all ranks from the start of epoch 0 on, through all epochs, so it
depends neither on the number of ranks nor on the batch size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from trainfeed.errors import ConfigError
from trainfeed.whole_numbers import whole

__all__ = ["Skip", "Stretches", "check_ahead", "kept_parts", "merged", "stretches_of"]

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
