"""Where the services keep their state, and which ports they use."""

from __future__ import annotations

import json
import os
import random
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path

__all__ = ["REPOSITORY", "default_home", "remembered_ports"]

REPOSITORY = Path(__file__).resolve().parent.parent

# Below the range from which the kernel takes ports for outgoing connections.
_FREE_PORTS = range(20000, 32000)


def default_home() -> Path:
    """State directory of all services: ``$TRAINFEED_SERVICES_HOME`` or ``.services`` here."""
    return Path(os.environ.get("TRAINFEED_SERVICES_HOME") or REPOSITORY / ".services").resolve()


def remembered_ports(home: Path, preferred: Mapping[str, int]) -> dict[str, int]:
    """Ports of the service with state in ``home``, chosen once and kept in ``ports.json``.

    Args:
        home: State directory of one service.
        preferred: Port by name. Taken in the default home when nobody listens there; elsewhere,
            and otherwise, any free one is.
    """
    chosen = home / "ports.json"
    if not chosen.exists():
        by_default = home.parent == default_home()
        wanted = by_default and _all_free(preferred.values())
        home.mkdir(parents=True, exist_ok=True)
        chosen.write_text(json.dumps(dict(preferred) if wanted else _free(preferred)))
    ports: dict[str, int] = json.loads(chosen.read_text())
    return ports


def _free(names: Iterable[str]) -> dict[str, int]:
    candidates = random.SystemRandom().sample(_FREE_PORTS, len(_FREE_PORTS))
    free = (port for port in candidates if _all_free([port]))
    return {name: next(free) for name in names}


def _all_free(ports: Iterable[int]) -> bool:
    for port in ports:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return False
    return True
