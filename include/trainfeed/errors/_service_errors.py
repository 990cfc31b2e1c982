"""Errors of the clients of trainfeed's servers."""

from __future__ import annotations

from trainfeed.errors._root import Outcome, TrainFeedError

__all__ = [
    "ServiceDeniedError",
    "ServiceError",
    "ServiceRefusedError",
    "ServiceUnreachableError",
]


class ServiceError(TrainFeedError):
    """A server of trainfeed failed a request, or gave no answer of its protocol.

    Cause: The server met an error of its own, or another program answers at the address.
    Remedy: Look in the log of the server for the request that the message names. A later try may
        succeed.
    See docs/reference/errors.md#serviceerror
    """

    outcome = Outcome.RETRY


class ServiceUnreachableError(ServiceError):
    """A server gave no answer within the time that the client waits.

    Cause: The server does not run, the address is wrong, the certificate is not trusted, or the
        server stays overloaded.
    Remedy: Start the server or correct the address that the message names, then try again; requests
        that the server answered before are done.
    See docs/reference/errors.md#serviceunreachableerror
    """


class ServiceDeniedError(ServiceError):
    """The server does not let this client do what was asked for.

    Cause: The token is missing, unknown or expired, or its scopes do not include the route.
    Remedy: Make a token with `trainfeed token new`, or name the file of a token with
        `TRAINFEED_TOKEN_FILE`.
    See docs/reference/errors.md#servicedeniederror
    """

    outcome = Outcome.FAIL


class ServiceRefusedError(ServiceError):
    """The server understood the request and refused it; the same request fails again.

    ``kind`` is the name that the server gives to the error.

    Cause: The request is larger than the server allows, names something that is not there, or
        contradicts what the server serves.
    Remedy: Follow the message, which has the words of the server; nothing was changed.
    See docs/reference/errors.md#servicerefusederror
    """

    outcome = Outcome.FAIL
    kind: str = ""
