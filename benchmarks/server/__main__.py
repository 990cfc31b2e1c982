"""Figures of attacks on the front door of the three servers, over TLS.

``python -m benchmarks.server`` prints a table in Markdown; it takes some minutes. The attacker and
the caller who has to be served are on one machine with the server.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

from benchmarks.server.three_servers import KINDS, Door, served

_PATIENCE_S: Final = 20.0
_JSON: Final = "content-type: application/json"


def silent_connections(door: Door, stack: ExitStack) -> str:
    """Open 250 connections that send nothing: 20 are allowed, and 200 descriptors."""
    for _ in range(250):
        with suppress(OSError):
            stack.enter_context(door.plain())
    time.sleep(1)
    return f"{door.descriptors()} descriptors; {_second(door)}"


def unfinished_bodies(door: Door, stack: ExitStack) -> str:
    """Begin 64 requests with a body of 1,000 bytes, and send one byte of each."""
    for _ in range(64):
        _begin(door, stack, 1000, 1)
    return _second(door)


def large_bodies(door: Door, stack: ExitStack) -> str:
    """Begin 30 requests with bodies of JSON of 9 MiB, of which the last byte does not come."""
    before = door.rss_bytes()
    for _ in range(30):
        _begin(door, stack, 9 << 20, (9 << 20) - 1)
    grown = max(0, door.rss_bytes() - before) >> 20
    return f"{grown} MiB more; {_second(door)}"


def refused_requests(door: Door, stack: ExitStack) -> str:
    """Send 700 requests with a wrong token after one of a caller; the audit has three of 20 KB."""
    door.look("anna")
    raw = stack.enter_context(door.tls())
    for _ in range(700):
        raw.sendall(door.head("GET", f"/{'x' * 150}", "nobody"))
        while b"\r\n\r\n" not in raw.recv(8192):
            pass
    return _lines(door, lambda line: line["who"] == "anna")


def own_lines(door: Door, stack: ExitStack) -> str:
    """Do one refused request, then 400 others with long paths; the audit has three of 20 KB."""
    door.ask("GET", door.kind.refused, "anna")
    raw = stack.enter_context(door.tls())
    for number in range(400):
        raw.sendall(door.head("GET", f"/{number}/{'%C3%A4' * 90}", "anna"))
        while b"\r\n\r\n" not in raw.recv(8192):
            pass
    return _lines(door, lambda line: line["status"] == door.kind.status)


def outcomes(door: Door, stack: ExitStack) -> str:  # noqa: ARG001
    """Ask for what routes refuse: another's home or method, no route, no JSON, other fields."""
    door.ask("GET", door.kind.refused, "anna")
    door.ask("GET", "/nowhere", "anna")
    door.ask("POST", door.kind.post, "anna", b"{")
    door.ask("POST", door.kind.post, "anna", b"{}")
    time.sleep(0.5)
    lines = [line for line in door.audit() if line["who"] == "anna"]
    return f"{sum(line['outcome'] == 'done' for line in lines)} of {len(lines)} refusals are 'done'"


def two_ends(door: Door, stack: ExitStack) -> str:
    """Send Content-Length with chunks, and another request in what is left."""
    raw = stack.enter_context(door.tls())
    headers = ("content-length: 4", "transfer-encoding: chunked")
    head = door.head("POST", door.kind.post, "anna", *headers)
    raw.sendall(head + b"0\r\n\r\n" + door.head("GET", door.kind.look, "anna"))
    raw.settimeout(3)
    answer = b""
    with suppress(TimeoutError):
        while part := raw.recv(65536):
            answer += part
    return f"{answer.count(b'HTTP/1.1 2') + answer.count(b'HTTP/1.1 4')} answers"


_ATTACKS: Final[dict[Callable[[Door, ExitStack], str], dict[str, Any]]] = {
    silent_connections: {"nofile": 200, "connections": 20},
    unfinished_bodies: {"request_seconds": 60},
    large_bodies: {"request_seconds": 60},
    refused_requests: {"audit_bytes": 20_000, "audit_files": 2, "denials_per_second": 1e6},
    own_lines: {"audit_bytes": 20_000, "audit_files": 2},
    outcomes: {},
    two_ends: {},
}


def _begin(door: Door, stack: ExitStack, num_bytes: int, sent: int) -> None:
    with suppress(OSError):
        raw = stack.enter_context(door.tls())
        raw.settimeout(5)
        head = door.head("POST", door.kind.post, "anna", f"content-length: {num_bytes}", _JSON)
        raw.sendall(head)
        raw.sendall(b" " * sent)


def _second(door: Door) -> str:
    """Return how a second caller is answered: at once, after a time, or not within a bound."""
    begun, refused = time.monotonic(), 0
    while time.monotonic() < begun + _PATIENCE_S:
        with suppress(OSError):
            if door.look("bert", seconds=3.0) == 200:
                return f"second caller after {time.monotonic() - begun:.1f} s"
            refused += 1
        time.sleep(0.2)
    return f"second caller not within {_PATIENCE_S:.0f} s ({refused} refusals)"


def _lines(door: Door, is_wanted: Callable[[dict[str, Any]], bool]) -> str:
    time.sleep(0.5)
    lines = door.audit()
    return f"{sum(map(is_wanted, lines))} of 1 line kept; {len(lines)} lines in all"


def main(arguments: Iterable[str]) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=[each.__name__ for each in _ATTACKS])
    only = parser.parse_args(list(arguments)).only
    print(f"| attack | {' | '.join(KINDS)} |\n| --- |{' --- |' * len(KINDS)}")
    for attack, given in _ATTACKS.items():
        if only not in (None, attack.__name__):
            continue
        row = []
        for kind in KINDS:
            with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
                door = stack.enter_context(served(kind, Path(folder), **given))
                row.append(attack(door, stack))
        print(f"| {attack.__name__} | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
