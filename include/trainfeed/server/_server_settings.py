"""Settings of a server: its address, files and limits, refused where they contradict each other."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field, fields
from pathlib import Path

from trainfeed.errors import ConfigError

__all__ = ["Limits", "ServerSettings", "is_loopback"]


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
