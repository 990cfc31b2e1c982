"""The answers of a server as a client takes them: a body, or one clear error.

The client knows time and tries; the meaning of a status and of a refusal's body is defined here.
"""

from __future__ import annotations

import json
from typing import Any

from trainfeed.config import TOKEN_FILE
from trainfeed.errors import ServiceDeniedError, ServiceError, ServiceRefusedError
from trainfeed.printable_text import printable

__all__ = ["checked_answer", "refusal_parts", "refusal_text"]


def checked_answer(status: int, answer: bytes, request: str) -> bytes:
    """Return the body of an answer whose status is a success.

    Args:
        status: The status of the answer.
        answer: The body of the answer.
        request: Method and address of the request, for errors.

    Raises:
        ServiceDeniedError: The token is refused.
        ServiceRefusedError: The server refused the request.
        ServiceError: The server failed.
    """
    if 200 <= status < 300:
        return answer
    text = refusal_text(answer)
    if status in (401, 403):
        raise ServiceDeniedError(f"{request}: {text}; {TOKEN_FILE} names the file of the token")
    if 400 <= status < 500 and _kind(answer):
        error = ServiceRefusedError(f"{request}: {text}")
        error.kind = _kind(answer)
        raise error
    raise ServiceError(f"{request}: expected an answer, got status {status}: {text}")


def refusal_text(answer: bytes) -> str:
    """Return the sentence of a refusal, or a note on what came in its place."""
    found = _refusal(answer)
    if "error" not in found:
        return f"{len(answer)} bytes that no server of trainfeed writes"
    text = "{error}: expected {expected}, got {got}; {remedy}"
    names = ("error", "expected", "got", "remedy")
    said = text.format(**{name: found.get(name, "?") for name in names})
    number = f" (request {found['request']})" if "request" in found else ""
    return printable(said + number)


def refusal_parts(answer: bytes) -> tuple[str, str]:
    """Return kind and description of a refusal; empty texts for other bytes."""
    found = _refusal(answer)
    return str(found.get("error", "")), printable(str(found.get("got", "")))


def _refusal(answer: bytes) -> dict[str, Any]:
    try:
        found = json.loads(answer)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _kind(answer: bytes) -> str:
    return str(_refusal(answer).get("error", ""))
