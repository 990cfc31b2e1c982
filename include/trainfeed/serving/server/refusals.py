"""Answers of a server that say no: one JSON object by status, without a stack trace."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from starlette.exceptions import HTTPException

from trainfeed.core.printable_text import printable, without_secrets
from trainfeed.errors import (
    ConfigError,
    ConflictError,
    FormatError,
    NotFoundError,
    Outcome,
    TrainFeedError,
)

# --- Answers of a server that say no: one JSON object, without a stack trace

_STATUSES: Final = (
    (NotFoundError, 404),
    (ConflictError, 409),
    (ConfigError, 400),
    (FormatError, 422),
)
_MAX_FIELDS: Final = 8
_MAX_CHARS: Final = 1000

# An absolute path that is none of the shared storage, which is the same for all machines.
_OWN_PATH: Final = re.compile(r"(?<![\w/.:])/(?!pfs(?:/|\b))[^\s'\",;:/]+(?:/[^\s'\",;:]*)*")
# What FastAPI says of a body that it could not read as JSON.
_JSON_INVALID: Final = "json_invalid"


class Refusal(HTTPException):
    """An answer that says no; handlers raise it.

    A subclass of Starlette's exception, because FastAPI hides all others that a body raises.

    Args:
        status: The HTTP status.
        error: Kind of the error, in the form of a class name.
        expected: Expected value or state.
        got: Actual value or state; names and kinds, no values of a payload.
        remedy: Next step for the caller.
        retry_after: Seconds after which the request may succeed; None if it fails again.
    """

    def __init__(
        self,
        status: int,
        error: str,
        *,
        expected: str,
        got: str,
        remedy: str,
        retry_after: float | None = None,
    ) -> None:
        headers = {"www-authenticate": "Bearer"} if status == HTTPStatus.UNAUTHORIZED else {}
        if retry_after is not None:
            headers["retry-after"] = str(max(1, math.ceil(retry_after)))
        super().__init__(status, detail=error, headers=headers)
        self.error = error
        self.expected, self.got, self.remedy = expected, got, remedy

    def body(self, request: str) -> dict[str, Any]:
        """Return the JSON of the answer to the request of a number."""
        texts = {"expected": self.expected, "got": self.got, "remedy": self.remedy}
        shown = {name: _shown(text) for name, text in texts.items()}
        return {"error": self.error, **shown, "request": request}


def refusal_of(error: TrainFeedError | HTTPException) -> Refusal:
    """Return the answer to an error that a handler, or the router, raised.

    The text of an error of the server itself is for its log: it says nothing that a caller can put
    right, and may name files and settings of the server.
    """
    if isinstance(error, Refusal):
        return error
    if isinstance(error, HTTPException):
        return _refusal_of_router(error)
    status = next((number for kind, number in _STATUSES if isinstance(error, kind)), 500)
    if status < 500:
        return Refusal(
            status,
            type(error).__name__,
            expected="a request that this server can carry out",
            got=public_text(str(error)),
            remedy="correct the request",
        )
    passes = error.outcome is Outcome.RETRY
    return Refusal(
        503 if passes else 500,
        type(error).__name__,
        expected="a request that this server can carry out",
        got="an error of the server; its log has it under the number of the request",
        remedy="try again later" if passes else "tell whoever runs the server",
        retry_after=1 if passes else None,
    )


def refusal_of_fields(problems: Sequence[Any]) -> Refusal:
    """Return the answer to a body or a parameter of another form; its values are not repeated."""
    broken = next((each for each in problems if each.get("type") == _JSON_INVALID), None)
    if broken is not None:
        reason = str(broken.get("ctx", {}).get("error", "other text"))
        return _no_json(f"{reason} at character {broken['loc'][-1]}")
    places = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in problems]
    return Refusal(
        422,
        "InvalidRequest",
        expected="a request of the form that the route takes",
        got="; ".join(places[:_MAX_FIELDS]) + ("; …" if len(places) > _MAX_FIELDS else ""),
        remedy="correct these fields",
    )


def public_text(text: str) -> str:
    """Return the text of an error without paths of this machine, for callers on others."""
    return _OWN_PATH.sub("(a path of the server)", text)


def _refusal_of_router(error: HTTPException) -> Refusal:
    phrase = HTTPStatus(error.status_code).phrase
    if error.status_code == HTTPStatus.BAD_REQUEST:
        # The router knows no other bad request than a body that it cannot read.
        return _no_json("other bytes")
    return Refusal(
        error.status_code,
        phrase.title().replace(" ", ""),
        expected="a route and a method of this server",
        got=phrase,
        remedy="look at the path and the method of the request",
    )


def _no_json(got: str) -> Refusal:
    return Refusal(
        400,
        "NotJson",
        expected="a body of JSON in UTF-8",
        got=got,
        remedy="correct the body; nothing of it was used",
    )


def _shown(text: str) -> str:
    return without_secrets(printable(text[:_MAX_CHARS]))


# --- The refusals of the guard: texts with places for what is known when they are raised


class Reason(NamedTuple):
    """A refusal as the table has it; see ``Refusal``."""

    status: int
    error: str
    expected: str
    got: str
    remedy: str
    retry_after: float | None = None

    def refusal(self, *, retry_after: float | None = None, **values: object) -> Refusal:
        """Return the refusal with values in its texts; ``retry_after`` in place of the table's."""
        return Refusal(
            self.status,
            self.error,
            expected=self.expected.format(**values),
            got=self.got.format(**values),
            remedy=self.remedy,
            retry_after=self.retry_after if retry_after is None else retry_after,
        )


_WAIT: Final = "wait as Retry-After says"
_NOT_BEGUN: Final = f"{_WAIT}; the request was not begun"

TOKEN_REFUSED: Final = Reason(
    401,
    "TokenRefused",
    "a valid token as 'Authorization: Bearer …', or a client certificate",
    "{got}",
    "ask the administrator of the server for a token",
)
SCOPE_MISSING: Final = Reason(
    403,
    "ScopeMissing",
    "a token with the scope {needed}",
    "scopes {scopes} of {name}",
    "use another token, or ask the administrator of the server to grant the scope",
)
ABOVE_RATE: Final = Reason(
    429, "TooManyRequests", "fewer {what} per second", "more than the limit", _WAIT
)
TOO_MANY_AT_ONCE: Final = Reason(
    429,
    "TooManyRequests",
    "at most {limit} requests at once of one name now",
    "one more",
    _NOT_BEGUN,
    1,
)
AUDIT_SHARE_USED: Final = Reason(
    429,
    "AuditShareUsed",
    "requests that the audit has room for",
    "a name that has used up its share",
    f"{_WAIT}, or ask the administrator of the server; the request was not begun",
)
NO_MEMORY: Final = Reason(
    503,
    "Overloaded",
    "at most {limit} bytes of bodies at once, of which one name gets half",
    "more",
    _NOT_BEGUN,
    1,
)
OVERLOADED: Final = Reason(
    503, "Overloaded", "at most {limit} requests at once", "one more", _NOT_BEGUN, 1
)
TOKENS_UNREADABLE: Final = Reason(
    503,
    "TokensUnreadable",
    "a token file that the server can read",
    "another one; the log of the server names the fault",
    "have the token file corrected; the request was not begun",
    5,
)
BODY_ON_HEALTH: Final = Reason(
    413, "BodyTooLarge", "no body", "one", "ask without a body; nothing of this one was read"
)
TOO_SLOW: Final = Reason(
    504,
    "TimeLimit",
    "an answer within {seconds:g} s",
    "none",
    "try again with a smaller request; it is unknown whether this one took effect",
)
FAILED: Final = Reason(
    500,
    "InternalError",
    "an answer",
    "an error of the server",
    "look in the log of the server for the number of the request",
)
