"""The refusals of the guard: what a caller is told, by status.

The guard decides in which order a request is checked; status, texts and wait are defined here.
"""

from __future__ import annotations

from trainfeed.server._http_refusal import Refusal
from trainfeed.server.access import Caller

__all__ = [
    "closed",
    "failed",
    "overloaded",
    "scope_missing",
    "too_many",
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
        remedy="make a token with: trainfeed token new NAME",
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
        remedy="use another token, or have the scope added to the token file",
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
