"""The target of files about failed gates: their record, waivers, and the waivers in use."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime

from tests.fuzz.places import place
from trainfeed.core import canonical_json
from trainfeed.errors import TrainFeedError
from trainfeed.versions import DatasetFolder
from trainfeed.versions.waive import (
    Applied,
    Refused,
    Waiver,
    applied_path,
    read_applied,
    read_refused,
    read_waivers,
    refused_path,
    waiver_path,
)

__all__ = ["WAIVER_SEEDS", "WAIVER_TARGETS"]

_INTERVAL = "2013-01-01"
_PLAN = "0123456789abcdef-g0001"
_NOW = datetime(2013, 1, 1, tzinfo=UTC)
_GATE = {"check": "count", "min": 3, "max": None, "severity": "ask", "value": 2, "passed": False}


def waiver(data: bytes) -> None:
    """Each kind of file; what is accepted comes back from its own JSON, and can be judged.

    The input is sealed here, so that what lies behind the digest is reached.
    """
    data = canonical_json.seal(data.removesuffix(b"}"))
    folder = DatasetFolder(place("waivers"), "a")
    paths = (
        refused_path(folder, _INTERVAL, _PLAN),
        waiver_path(folder, _INTERVAL, _PLAN, 1),
        applied_path(folder, _INTERVAL, _PLAN, [_GATE]),
    )
    paths[0].parent.mkdir(parents=True, exist_ok=True)
    for path in paths:
        path.write_bytes(data)
    with suppress(TrainFeedError):
        refused = read_refused(folder, _INTERVAL, _PLAN)
        assert refused is not None
        canonical_json.dumps(asdict(refused))
    with suppress(TrainFeedError):
        for used in read_applied(folder, _INTERVAL, _PLAN, [_GATE]) or ():
            assert Applied.from_json(used.to_json()) == used
    (found,) = read_waivers(folder, _INTERVAL, _PLAN).values()
    assert found.covers(_GATE) == (_GATE in map(dict, found.gates))
    found.holds_at(_NOW)
    canonical_json.dumps(found.to_json())


def _waivers() -> list[bytes]:
    moment = "2013-01-02T00:00:00Z"
    decided = {"who": "ana", "account": "builder", "why": "a storm", "at": moment}
    made = Waiver(_PLAN, moment, (_GATE,), **decided)
    refused = Refused(_PLAN, "0" * 64, (_GATE,), ("count is 2",))
    used = {"plan": _PLAN, "waivers": [Applied.of(made, [_GATE]).to_json()]}
    return list(map(canonical_json.dumps, (made.to_json(), asdict(refused), used)))


WAIVER_TARGETS: dict[str, Callable[[bytes], None]] = {"waiver": waiver}
WAIVER_SEEDS: dict[str, Callable[[], list[bytes]]] = {"waiver": _waivers}
