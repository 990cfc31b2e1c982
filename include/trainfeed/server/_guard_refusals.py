"""The refusals of the guard: what a caller is told, by status.

The guard decides in which order a request is checked; status, texts and wait are defined here.
"""

from __future__ import annotations

from trainfeed.server._http_refusal import Refusal
from trainfeed.server.access import Caller

__all__ = [
    "audit_used",
    "body_on_health",
    "closed",
    "failed",
    "no_room",
    "overloaded",
    "scope_missing",
    "too_many",
    "too_many_at_once",
    "too_slow",
    "unknown",
]


def unknown(got: str) -> Refusal:
    """Return the refusal of a caller without a valid token; ``got`` says what it showed."""
    refusal = Refusal(
        401,
        "TokenRefused",
        expected="a valid token as 'Authorization: Bearer …', or a client certificate",
        got=got,
        remedy="ask for a token whoever runs the server",
    )
    refusal.headers = {"www-authenticate": "Bearer"}
    return refusal


def scope_missing(needed: str, caller: Caller) -> Refusal:
    """Return the refusal of a caller whose token lacks the scope of a route."""
    return Refusal(
        403,
        "ScopeMissing",
        expected=f"a token with the scope {needed}",
        got=f"scopes {', '.join(sorted(caller.scopes))} of {caller.name}",
        remedy="use another token, or ask whoever runs the server to grant the scope",
    )


def too_many(what: str, seconds: float) -> Refusal:
    """Return the refusal of a caller that is over a rate; ``seconds`` until it may try again."""
    return Refusal(
        429,
        "TooManyRequests",
        expected=f"fewer {what} per second",
        got="more than the limit",
        remedy="wait as Retry-After says",
        retry_after=seconds,
    )


def too_many_at_once(limit: int) -> Refusal:
    """Return the refusal of a caller that has as many requests at once as one name may have."""
    return Refusal(
        429,
        "TooManyRequests",
        expected=f"at most {limit} requests at once of one name now",
        got="one more",
        remedy="wait as Retry-After says; the request was not begun",
        retry_after=1,
    )


def no_room(limit: int) -> Refusal:
    """Return the refusal of a body for which no memory is left."""
    return Refusal(
        503,
        "Overloaded",
        expected=f"at most {limit} bytes of bodies at once, of which one name gets half",
        got="more",
        remedy="wait as Retry-After says; the request was not begun",
        retry_after=1,
    )


def audit_used(seconds: float) -> Refusal:
    """Return the refusal of a caller that has filled its share of the audit."""
    return Refusal(
        429,
        "AuditShareUsed",
        expected="requests that the audit has room for",
        got="a name that has used up its share",
        remedy="wait as Retry-After says, or ask whoever runs the server; the request was not"
        " begun",
        retry_after=seconds,
    )


def body_on_health() -> Refusal:
    """Return the refusal of a body of a request that needs no token."""
    return Refusal(
        413,
        "BodyTooLarge",
        expected="no body",
        got="one",
        remedy="ask without a body; nothing of this one was read",
    )


def overloaded(limit: int) -> Refusal:
    """Return the refusal of a request above the number that may be in work."""
    return Refusal(
        503,
        "Overloaded",
        expected=f"at most {limit} requests at once",
        got="one more",
        remedy="wait as Retry-After says; the request was not begun",
        retry_after=1,
    )


def closed() -> Refusal:
    """Return the refusal of every request while the token file cannot be read."""
    return Refusal(
        503,
        "TokensUnreadable",
        expected="a token file that the server can read",
        got="another one; the log of the server names the fault",
        remedy="have the token file corrected; the request was not begun",
        retry_after=5,
    )


def too_slow(seconds: float) -> Refusal:
    """Return the refusal of a request that was not answered within ``seconds``."""
    return Refusal(
        504,
        "TimeLimit",
        expected=f"an answer within {seconds:g} s",
        got="none",
        remedy="try again with a smaller request; it is unknown whether this one took effect",
    )


def failed() -> Refusal:
    """Return the refusal of a request whose route failed; the log has the error."""
    return Refusal(
        500,
        "InternalError",
        expected="an answer",
        got="an error of the server",
        remedy="look in the log of the server for the number of the request",
    )
