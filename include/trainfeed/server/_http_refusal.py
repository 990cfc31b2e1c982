"""Answers of a server that say no: one JSON object, without a stack trace.

Refusals of tokens, limits and fields name a field and never its value; routes choose their texts.
``error`` is the kind, ``expected``, ``got`` and ``remedy`` are texts for people, and ``request`` is
the number of the request in audit and log.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

from starlette.exceptions import HTTPException

from trainfeed.errors import (
    ConfigError,
    ConflictError,
    FormatError,
    NotFoundError,
    Outcome,
    TrainFeedError,
)
from trainfeed.printable_text import printable, without_secrets

__all__ = ["Refusal", "refusal_of", "refusal_of_fields"]

_STATUSES: Final = (
    (NotFoundError, 404),
    (ConflictError, 409),
    (ConfigError, 400),
    (FormatError, 422),
)
_MAX_FIELDS: Final = 8
_MAX_CHARS: Final = 1000


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
        wait = {} if retry_after is None else {"retry-after": str(max(1, math.ceil(retry_after)))}
        super().__init__(status, detail=error, headers=wait)
        self.error = error
        self.expected, self.got, self.remedy = expected, got, remedy

    def body(self, request: str) -> dict[str, Any]:
        """Return the JSON of the answer to the request of a number."""
        texts = {"expected": self.expected, "got": self.got, "remedy": self.remedy}
        shown = {name: _shown(text) for name, text in texts.items()}
        return {"error": self.error, **shown, "request": request}


def refusal_of(error: TrainFeedError | HTTPException) -> Refusal:
    """Return the answer to an error that a handler, or the router, raised."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, HTTPException):
        phrase = HTTPStatus(error.status_code).phrase
        return Refusal(
            error.status_code,
            phrase.title().replace(" ", ""),
            expected="a route and a method of this server",
            got=phrase,
            remedy="look at the path and the method of the request",
        )
    status = next((number for kind, number in _STATUSES if isinstance(error, kind)), 500)
    passes = status == 500 and error.outcome is Outcome.RETRY
    return Refusal(
        503 if passes else status,
        type(error).__name__,
        expected="a request that this server can carry out",
        got=str(error),
        remedy="try again later" if passes else "follow the message",
        retry_after=1 if passes else None,
    )


def refusal_of_fields(problems: Sequence[Any]) -> Refusal:
    """Return the answer to a body or a parameter of another form; its values are not repeated."""
    places = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in problems]
    return Refusal(
        422,
        "InvalidRequest",
        expected="a request of the form that the route takes",
        got="; ".join(places[:_MAX_FIELDS]) + ("; …" if len(places) > _MAX_FIELDS else ""),
        remedy="correct these fields",
    )


def _shown(text: str) -> str:
    return without_secrets(printable(text[:_MAX_CHARS]))
