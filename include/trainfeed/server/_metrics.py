"""Counters, gauges and histograms of a server, printed in the text format of Prometheus."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

__all__ = ["Metrics"]

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_PREFIX: Final = "trainfeed_"

_Labels = tuple[tuple[str, str], ...]


@dataclass
class _Family:
    kind: str
    about: str
    bounds: tuple[float, ...] = ()
    values: dict[_Labels, float] = field(default_factory=dict)
    buckets: dict[_Labels, list[int]] = field(default_factory=dict)
    read: Callable[[], float] | None = None


class Metrics:
    """The metrics of one server; names get the prefix ``trainfeed_``. For one thread."""

    def __init__(self) -> None:
        self._families: dict[str, _Family] = {}

    def counter(self, name: str, about: str) -> None:
        """Declare a number that only grows."""
        self._families[name] = _Family("counter", about)

    def gauge(self, name: str, about: str, read: Callable[[], float]) -> None:
        """Declare a number that ``read`` returns whenever the metrics are printed."""
        self._families[name] = _Family("gauge", about, read=read)

    def histogram(self, name: str, about: str, bounds: Sequence[float] = _SECONDS) -> None:
        """Declare a distribution; ``bounds`` are the upper bounds of its buckets, ascending."""
        self._families[name] = _Family("histogram", about, tuple(bounds))

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Add to a counter."""
        values, key = self._families[name].values, tuple(labels.items())
        values[key] = values.get(key, 0) + amount

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Add a value to a histogram."""
        family, key = self._families[name], tuple(labels.items())
        buckets = family.buckets.setdefault(key, [0] * (len(family.bounds) + 1))
        buckets[bisect.bisect_left(family.bounds, value)] += 1
        family.values[key] = family.values.get(key, 0) + value

    def value(self, name: str, **labels: str) -> float:
        """Return the number of a counter, or the sum of a histogram."""
        return self._families[name].values.get(tuple(labels.items()), 0)

    def text(self) -> str:
        """Return all metrics in the text format of Prometheus."""
        return "\n".join(
            line
            for name, family in sorted(self._families.items())
            for line in _lines(_PREFIX + name, family)
        ) + ("\n" if self._families else "")


def _lines(name: str, family: _Family) -> list[str]:
    head = [f"# HELP {name} {family.about}", f"# TYPE {name} {family.kind}"]
    if family.read is not None:
        return [*head, f"{name} {family.read():g}"]
    if family.kind == "counter":
        return [
            *head,
            *(f"{name}{_text(key)} {value:.15g}" for key, value in family.values.items()),
        ]
    return head + [line for key in family.buckets for line in _distribution(name, family, key)]


def _distribution(name: str, family: _Family, key: _Labels) -> list[str]:
    labels, total, lines = dict(key), 0, []
    for bound, number in zip((*family.bounds, "+Inf"), family.buckets[key], strict=True):
        total += number
        lines.append(f"{name}_bucket{_text({**labels, 'le': str(bound)})} {total}")
    sum_line = f"{name}_sum{_text(labels)} {family.values[key]:.15g}"
    return [*lines, sum_line, f"{name}_count{_text(labels)} {total}"]


def _text(labels: Mapping[str, str] | _Labels) -> str:
    pairs = dict(labels).items()
    shown = ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs)
    return f"{{{shown}}}" if shown else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
