"""Ends the sessions of a user's key: a revoked key alone does not stop a client that runs.

A client has a session with each metadata server, one with a monitor, and tickets for the osds that
are valid for an hour. Eviction ends the first and blocks the client at the osds. Programs that use
objects without the file system have a session with a monitor only, so the addresses of those are
blocked, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trainfeed.errors import StorageError
from trainfeed.pfs.users._shared_storage import SharedStorage

__all__ = ["EndedSessions", "end_sessions"]

# A block must outlast the tickets of a client; their keys are exchanged three times in that time.
_BLOCK_TICKETS: Final = 3


@dataclass(frozen=True)
class EndedSessions:
    """The clients that were cut off.

    Attributes:
        addresses: Addresses of clients that are blocked, each with the number of its process.
        blocked_s: Seconds for which they are blocked; 0 if there were none.
    """

    addresses: tuple[str, ...] = ()
    blocked_s: int = 0


def end_sessions(storage: SharedStorage, user: str) -> EndedSessions:
    """Cut off all clients that use a user's key now; clients that start later are not touched.

    Raises:
        StorageError: The cluster refused or did not answer, or a client is not blocked afterwards.
    """
    addresses = _addresses(storage, user)
    blocked_s = _BLOCK_TICKETS * _ticket_s(storage) if addresses else 0
    for address in addresses:
        storage.ceph.run("osd", "blocklist", "add", address, str(blocked_s))
    for rank in storage.ranks:
        storage.ceph.run("tell", storage.mds(rank), "session", "evict", f"auth_name={user}")
    if addresses:
        _require_blocked(storage, addresses)
    return EndedSessions(addresses, blocked_s)


def _addresses(storage: SharedStorage, user: str) -> tuple[str, ...]:
    """Return the addresses of all clients that a monitor has authenticated by the user's key."""
    monitors = storage.ceph.json("quorum_status")["quorum_names"]
    found = set()
    for monitor in monitors:
        for session in storage.ceph.json("tell", f"mon.{monitor}", "sessions"):
            if session["entity_name"] == f"client.{user}":
                entries = session["addrs"]["addrvec"]
                found |= {f"{each['addr']}/{each['nonce']}" for each in entries}
    return tuple(sorted(found))


def _ticket_s(storage: SharedStorage) -> int:
    return round(float(storage.ceph.run("config", "get", "mon", "auth_service_ticket_ttl")))


def _require_blocked(storage: SharedStorage, addresses: tuple[str, ...]) -> None:
    # `osd blocklist ls` of Ceph 16 is no JSON: a second, empty list follows the first.
    blocked = storage.ceph.json("osd", "dump")["blocklist"]
    if missing := set(addresses) - set(blocked):
        raise StorageError(
            f"expected the clients {', '.join(sorted(missing))} to be blocked, found them not in"
            " the list of the cluster; run the same command again"
        )
