"""Metrics of a server in the text format of Prometheus, and its parts that must live."""

from __future__ import annotations

import asyncio
import bisect
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

# --- Counters, gauges and histograms of a server, printed in the text format of Prometheus

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


# --- Parts of a server that must live: tasks, threads, storage. A dead one fails ``/healthz``

_log: Final = logging.getLogger("trainfeed.server")


class Parts:
    """The parts of one server by name. Names are shown to everybody. For one loop."""

    def __init__(self) -> None:
        self._checks: dict[str, Callable[[], bool]] = {}
        self._failed: set[str] = set()

    def add(self, name: str, is_well: Callable[[], bool]) -> None:
        """Add a part; ``is_well`` answers at once, and an error of it is a no."""
        self._checks[name] = is_well

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task that ends with the server; its end before that is a dead part."""
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(_tell_end)
        self.add(name, lambda: not task.done())
        return task

    def failed(self) -> tuple[str, ...]:
        """Return the names of the parts that are dead or do not answer; the log gets changes."""
        found = {name for name, is_well in self._checks.items() if not _holds(name, is_well)}
        for name in sorted(found ^ self._failed):
            if name in found:
                _log.error("the part %r of the server does not work; /healthz says so", name)
            else:
                _log.warning("the part %r of the server works again", name)
        self._failed = found
        return tuple(sorted(found))


def _holds(name: str, is_well: Callable[[], bool]) -> bool:
    try:
        return is_well()
    except Exception:  # noqa: BLE001 (a part that cannot say that it is well is not)
        _log.debug("the part %r cannot say how it is", name, exc_info=True)
        return False


def _tell_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("the part %r of the server ended", task.get_name(), exc_info=error)
