"""Clients that ask for predictions: threads with a connection each, and what they saw."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.prediction._ground import Served

__all__ = ["Seen", "ask_for", "version_of"]


@dataclass
class Seen:
    """What clients saw.

    Attributes:
        statuses: Status → number of answers; ``error`` for a connection that failed.
        versions: Version of the model → number of answers.
        seconds: Time of every answer 200.
        refused_s: Time of every other answer.
        wall_s: Time of the whole.
    """

    statuses: Counter[str] = field(default_factory=Counter)
    versions: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    refused_s: list[float] = field(default_factory=list)
    wall_s: float = 0.0

    def row(self) -> dict[str, object]:
        """Return the figures."""
        times = sorted(self.seconds)
        return {
            "requests": sum(self.statuses.values()),
            "statuses": dict(self.statuses),
            "per_second": round(len(times) / self.wall_s),
            "p50_ms": _percentile(times, 50),
            "p99_ms": _percentile(times, 99),
            "max_ms": _percentile(times, 100),
            "refused_p99_ms": _percentile(sorted(self.refused_s), 99),
            "versions": dict(self.versions),
        }


def ask_for(
    served: Served,
    lines: Sequence[str],
    *,
    clients: int,
    seconds: float,
    records: int = 1,
    during: Callable[[], None] | None = None,
) -> Seen:
    """Ask from some connections at once, each as fast as it is answered.

    Args:
        served: The service.
        lines: Records.
        clients: Number of connections.
        seconds: Time for which the clients ask.
        records: Records of a request.
        during: Called once while the clients ask; they then end with it, not after ``seconds``.
    """
    seen, lock, until = Seen(), threading.Lock(), time.monotonic() + seconds
    done = threading.Event()
    bodies = [
        json.dumps({"records": [lines[(n + k) % len(lines)] for k in range(records)]}).encode()
        for n in range(64)
    ]

    def client(number: int) -> None:
        own, trust, count = Seen(), served.trust(), number
        link = http.client.HTTPSConnection("localhost", served.port, context=trust, timeout=120)
        while not done.is_set() and (during is not None or time.monotonic() < until):
            count += 1
            try:
                _ask(link, served.token, bodies[count % len(bodies)], own)
            except (OSError, http.client.HTTPException) as error:
                own.statuses[f"error {type(error).__name__}"] += 1
                link.close()
        link.close()
        with lock:
            _add(seen, own)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    if during is not None:
        during()
        done.set()
    for thread in threads:
        thread.join()
    seen.wall_s = time.monotonic() - started
    return seen


def version_of(served: Served) -> str:
    """Return the version of the model that is in use."""
    link = http.client.HTTPSConnection("localhost", served.port, context=served.trust(), timeout=60)
    link.request("GET", "/v1/model", headers={"Authorization": f"Bearer {served.token}"})
    version: str = json.loads(link.getresponse().read())["version"]
    link.close()
    return version


def _ask(link: http.client.HTTPSConnection, token: str, body: bytes, seen: Seen) -> None:
    started = time.monotonic()
    link.request("POST", "/v1/predict", body, {"Authorization": f"Bearer {token}"})
    answer = link.getresponse()
    data = answer.read()
    took = time.monotonic() - started
    seen.statuses[str(answer.status)] += 1
    if answer.status == 200:
        seen.seconds.append(took)
        seen.versions[json.loads(data)["model"]] += 1
    else:
        seen.refused_s.append(took)


def _add(seen: Seen, own: Seen) -> None:
    seen.statuses.update(own.statuses)
    seen.versions.update(own.versions)
    seen.seconds += own.seconds
    seen.refused_s += own.refused_s


def _percentile(times: Sequence[float], percent: int) -> float | None:
    return round(1000 * times[(len(times) - 1) * percent // 100], 2) if times else None
