"""What a failed stage means to Airflow: retry it, fail at once, or wait; and how it is told.

The log of a failed task begins with the message in plain words, and the message is kept as an XCom
for the page of the run: the stack of an error whose message says what to do helps nobody.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowRescheduleException,
)

from trainfeed.errors import GateError, Outcome, TrainFeedError

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["FAILURE_KEY", "airflow_outcome", "call_again"]

logger = logging.getLogger(__name__)

FAILURE_KEY: Final = "failure"

# An XCom is a row of a database.
_MOST_CHARS: Final = 8_000
_LINE_CHARS: Final = 100


@contextmanager
def airflow_outcome(context: Context | None = None) -> Iterator[None]:
    """Translate the errors of trainfeed that raise inside.

    Whatever is not an error of trainfeed (a broken network, a bug) passes through, and so does
    one that calls for a retry: Airflow retries everything that it does not know.

    Args:
        context: Of the task, which then leaves its failure as the XCom ``failure``: ``error``
            (name of the class), ``message``, ``retries`` and, of a failed gate, ``report``.

    Raises:
        AirflowFailException: Another try would end the same way.
    """
    try:
        yield
    except TrainFeedError as error:
        logger.error("%s: %s", type(error).__name__, _in_lines(error))  # noqa: TRY400
        logger.debug("raised here", exc_info=error)
        _leave(context, error, retries=error.outcome is Outcome.RETRY)
        if error.outcome is Outcome.FAIL:
            raise AirflowFailException(_first_line(error)) from None
        raise
    except AirflowFailException as error:
        _leave(context, error, retries=False)
        raise
    except AirflowException:
        # Skipped, deferred, called again: none of them is a failure.
        raise
    except Exception as error:
        _leave(context, error, retries=True)
        raise


def _leave(context: Context | None, error: Exception, *, retries: bool) -> None:
    if context is None:
        return
    failure: dict[str, Any] = {
        "error": _name_of(error),
        "message": str(error)[:_MOST_CHARS],
        "retries": retries,
    }
    if isinstance(error, GateError) and error.report is not None:
        failure["report"] = dict(error.report)
    try:
        context["ti"].xcom_push(key=FAILURE_KEY, value=failure)
    except Exception as lost:  # noqa: BLE001 - what the task failed of counts more
        logger.warning("the page of the run will not have the message: %s", lost)


def _in_lines(error: Exception) -> str:
    """Return the message with its parts on lines of their own: pages cut lines that are long."""
    lines = []
    for line in str(error).splitlines():
        parts = line.split("; ") if len(line) > _LINE_CHARS else [line]
        lines.append(";\n  ".join(parts))
    return "\n".join(lines)


def _first_line(error: Exception) -> str:
    """Return the first line; what follows in the log is its stack, and above it is the rest."""
    first, *rest = str(error).splitlines() or [""]
    return f"{first} (the whole message stands above)" if rest else first


def _name_of(error: Exception) -> str:
    """Return the class that says most: of what was translated for Airflow, what it was before."""
    cause = error.__cause__ if isinstance(error, AirflowFailException) else None
    return type(cause or error).__name__


def call_again(at: datetime) -> AirflowRescheduleException:
    """What a task raises to be called again at ``at``, without holding a slot or losing a try."""
    return AirflowRescheduleException(at)  # type: ignore[no-untyped-call]
