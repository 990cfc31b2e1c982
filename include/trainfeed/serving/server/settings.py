"""Settings of a server: address, files and limits, with portions and rates that hold them."""

from __future__ import annotations

import ipaddress
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Final

from trainfeed.errors import ConfigError

# --- Settings of a server: its address, files and limits, refused where they contradict each other


@dataclass(frozen=True)
class Limits:
    """Bounds of what clients can take from a server; all are above 0.

    Attributes:
        body_bytes: Size of a request's body that is read before its route begins; a larger one is
            answered 413. Routes of large bodies have bounds of their own.
        bodies_bytes: Memory for such bodies, of all requests; one more is answered 503.
        body_seconds: Time that the next bytes of a body may take: what has come must be at least
            ``body_rate`` since the begin, after this time. Otherwise 408.
        body_rate: Bytes per second of a body.
        header_bytes: Size of a request's line and headers.
        header_seconds: Time until the headers of a request are complete.
        handshake_seconds: Time for a handshake of TLS.
        request_seconds: Time for one request; after that 504.
        idle_seconds: Time that a connection stays open without a request.
        connections: Connections at once, counted before TLS. If there are more, one without a
            request in work is closed; if there is none, the new one is refused.
        handshakes: Connections at once whose handshake has not ended.
        requests: Requests in work at once, of which one name gets half; one more is answered 503.
        caller_requests: Requests of one name at once, with those whose body still comes; above it
            429.
        requests_per_second: Rate of one name of the token file; above it 429.
        burst: Requests that one name can send at once before the rate holds.
        denials_per_second: Rate of refused tokens from one address; above it 429.
        grace_seconds: Time for requests that are in work when the server ends.
        audit_bytes: Size of the audit file; a full one is renamed and a new one begun.
        audit_files: Number of full audit files that are kept whatever their age is.
        audit_days: Age up to which all full audit files are kept.
        audit_share_bytes: Bytes of audit lines that one name can write at once.
        audit_share_per_day: Bytes of audit lines per day that one name can write after that.
    """

    body_bytes: int = 64 << 10
    bodies_bytes: int = 16 << 20
    body_seconds: float = 10.0
    body_rate: float = float(32 << 10)
    header_bytes: int = 16 << 10
    header_seconds: float = 10.0
    handshake_seconds: float = 10.0
    request_seconds: float = 30.0
    idle_seconds: float = 30.0
    connections: int = 256
    handshakes: int = 64
    requests: int = 64
    caller_requests: int = 32
    requests_per_second: float = 1000.0
    burst: int = 1000
    denials_per_second: float = 10.0
    grace_seconds: float = 10.0
    audit_bytes: int = 64 << 20
    audit_files: int = 4
    audit_days: float = 30.0
    audit_share_bytes: int = 256 << 20
    audit_share_per_day: int = 256 << 20

    def __post_init__(self) -> None:
        for each in fields(self):
            if not (value := getattr(self, each.name)) > 0:
                raise ConfigError(f"expected the limit {each.name} to be above 0, got {value!r}")


@dataclass(frozen=True)
class ServerSettings:
    """The address, the files and the limits of one server.

    Attributes:
        token_file: File with the digests of the tokens; ``TokenFile`` has its form.
        host: Address to listen on. Addresses that other machines reach need a certificate.
        port: Port to listen on; 0 takes a free one.
        certificate: PEM file of the server's certificate and those between it and its authority.
        key: PEM file of the certificate's private key, which no other account can read.
        client_ca: PEM file of the authorities whose certificates clients may show.
        port_file: File that gets the port as text once the server answers; it is made whole.
        audit_log: File that gets one JSON line per request; None leaves the lines to the log
            ``trainfeed.server.audit``.
        limits: Bounds of requests.

    Raises:
        ConfigError: The address is open to other machines without a certificate, or a certificate
            comes without its key, or the reverse.
    """

    token_file: Path
    host: str = "127.0.0.1"
    port: int = 0
    certificate: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None
    port_file: Path | None = None
    audit_log: Path | None = None
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ConfigError(f"expected a port from 0 to 65535, got {self.port}")
        if (self.certificate is None) != (self.key is None):
            given = "the key" if self.certificate is None else "the certificate"
            raise ConfigError(f"expected a certificate and its key, got only {given}")
        if self.certificate is None and not is_loopback(self.host):
            raise ConfigError(
                f"expected a certificate and a key for {self.host!r}, which other machines reach,"
                " got none; give both, or listen on 127.0.0.1"
            )
        if self.client_ca is not None and self.certificate is None:
            raise ConfigError("expected a certificate beside the authorities of clients, got none")

    @property
    def scheme(self) -> str:
        """``https`` with a certificate, otherwise ``http``."""
        return "http" if self.certificate is None else "https"


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address; of names, only ``localhost``."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


# --- A number of equal things, such as places or bytes, that callers take and give back


class Portions:
    """The things, and who has how many.

    Args:
        limit: How many there are.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._taken: Counter[str] = Counter()

    @property
    def num_taken(self) -> int:
        """How many are taken by all together."""
        return self._taken.total()

    def of(self, name: str) -> int:
        """Return how many a name has."""
        return self._taken[name]

    def fits(self, name: str, count: int) -> bool:
        """Return whether a name can take some more; one request always fits an empty whole."""
        own, total = self._taken[name], self.num_taken
        if not total:
            return True
        return total + count <= self.limit and (not own or own + count <= self.limit - total)

    def take(self, name: str, count: int = 1) -> bool:
        """Take some; return whether they fit, otherwise nothing is taken."""
        if not self.fits(name, count):
            return False
        self._taken[name] += count
        return True

    def give(self, name: str, count: int = 1) -> None:
        """Give some back."""
        self._taken[name] -= count
        if self._taken[name] <= 0:
            del self._taken[name]


# --- Rates per key: a bucket that fills at a steady rate, and of which each request takes one

# Keys may be addresses, so their number is bounded; the one that was idle longest is forgotten.
_MAX_KEYS: Final = 4096


class Rates:
    """Buckets by key.

    Args:
        per_second: Requests per second that refill a bucket.
        burst: Size of a bucket, in requests.
        clock: Seconds of a clock that never goes back.
    """

    def __init__(
        self, per_second: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_second = per_second
        self._burst = max(burst, 1.0)
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, key: str) -> float:
        """Take one request of a key; return 0, or the seconds until the bucket has one again."""
        level = self._level(key)
        if level < 1.0:
            return (1.0 - level) / self._per_second
        self._keep(key, level - 1.0)
        return 0.0

    def spend(self, key: str, amount: float) -> None:
        """Take an amount of a key's bucket, also if it has less: it is in debt then."""
        self._keep(key, self._level(key) - amount)

    def debt_seconds(self, key: str) -> float:
        """Return the seconds until the bucket of a key is out of debt; 0 if it has none."""
        return max(0.0, -self._level(key) / self._per_second)

    def _keep(self, key: str, level: float) -> None:
        self._buckets[key] = (level, self._clock())
        self._buckets.move_to_end(key)
        if len(self._buckets) > _MAX_KEYS:
            self._buckets.popitem(last=False)

    def _level(self, key: str) -> float:
        level, since = self._buckets.get(key, (self._burst, self._clock()))
        return min(self._burst, level + (self._clock() - since) * self._per_second)
