"""Latency, throughput, exchange and overload of the service of predictions, on the loopback.

``python -m benchmarks.prediction [load exchange overload] [--seconds 10]``: a model of the real
digits, served over TLS with a token; clients are threads of one process on the same machine.

* ``load``: closed loops of 1 to 32 connections, with 1 or 16 records in a request.
* ``exchange``: 8 connections while a promotion and a rollback take place again and again.
* ``overload``: a model that takes 20 ms for a batch of one record can answer 50 requests in a
  second; 64 connections ask for ten times as many.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

from benchmarks.prediction._clients import ask_for, version_of
from benchmarks.prediction._ground import Ground, Served
from trainfeed.training.models import PROD, promote, rollback

_LOADS = ((1, 1), (8, 1), (32, 1), (8, 16))
_BATCH_SECONDS = 0.02
_WHAT = ["load", "exchange", "overload"]


def main() -> None:
    """Print a line of JSON for every measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=_WHAT, choices=_WHAT)
    parser.add_argument("--seconds", type=float, default=10.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trainfeed-") as folder:
        fast = Ground(Path(folder, "fast"))
        if "load" in asked.what:
            _load(fast, asked.seconds)
        if "exchange" in asked.what:
            _exchange(fast)
    if "overload" in asked.what:
        with tempfile.TemporaryDirectory(prefix="trainfeed-") as folder:
            _overload(Ground(Path(folder, "slow"), _BATCH_SECONDS), asked.seconds)


def _load(ground: Ground, seconds: float) -> None:
    with ground.service("--max-delay", "0") as served:
        ask_for(served, ground.lines, clients=1, seconds=1)
        for clients, records in _LOADS:
            before = served.cpu_seconds()
            seen = ask_for(served, ground.lines, clients=clients, seconds=seconds, records=records)
            pairs = zip(before, served.cpu_seconds(), strict=True)
            web_ms, predict_ms = (1000 * (b - a) / max(1, len(seen.seconds)) for a, b in pairs)
            spent = {"web_cpu_ms": round(web_ms, 2), "predict_cpu_ms": round(predict_ms, 2)}
            _print("load", clients=clients, records=records, **spent, **seen.row())


def _exchange(ground: Ground, times: int = 2) -> None:
    took: list[float] = []

    with ground.service("--watch", "0.2") as served:

        def change() -> None:
            for number in range(times):
                promote(ground.model, PROD, 2, "to see", request=f"request {number}")
                took.append(_until(served, "v0002"))
                rollback(ground.model, "to see")
                took.append(_until(served, "v0001"))

        seen = ask_for(served, ground.lines, clients=8, seconds=0, during=change)
        seconds = [round(each, 1) for each in took]
        _print("exchange", clients=8, exchanges=len(took), seconds=seconds, **seen.row())


def _until(served: Served, version: str) -> float:
    started = time.monotonic()
    while version_of(served) != version:
        time.sleep(0.05)
    return time.monotonic() - started


def _overload(ground: Ground, seconds: float) -> None:
    options = ("--max-batch", "1", "--max-delay", "0", "--queue", "16")
    with ground.service(*options) as served:
        alone = ask_for(served, ground.lines, clients=1, seconds=seconds)
        _print("overload", clients=1, rss_mib=served.rss_bytes() >> 20, **alone.row())
        for clients in (16, 64):
            seen = ask_for(served, ground.lines, clients=clients, seconds=seconds)
            _print("overload", clients=clients, rss_mib=served.rss_bytes() >> 20, **seen.row())


def _print(what: str, **values: object) -> None:
    load = round(os.getloadavg()[0], 1)
    print(json.dumps({"what": what, "load": load, **values}), flush=True)


if __name__ == "__main__":
    main()
