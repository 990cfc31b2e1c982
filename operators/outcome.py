"""Outcomes for Airflow: errors of stages become retry, failure or wait; results become lines."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowRescheduleException,
)

from operators.runs import require_known
from trainfeed.errors import GateError, Outcome, TrainFeedError

if TYPE_CHECKING:
    from airflow.sdk import Context


# --- Translates the errors of stages for Airflow: retry, fail at once, or wait; and shows them

logger = logging.getLogger(__name__)

FAILURE_KEY: Final = "failure"

# An XCom is a row of a database.
_MOST_MESSAGE_CHARS: Final = 8_000
_LINE_CHARS: Final = 100


@contextmanager
def airflow_outcome(context: Context | None = None) -> Iterator[None]:
    """Translate the errors of trainfeed that the block raises.

    Other errors (a broken network, a bug) pass through, and so do errors with the outcome RETRY:
    Airflow retries a task after every exception that it does not know.

    Args:
        context: Context of the task. With it, the failure is kept as the XCom ``failure``:
            ``error`` (name of the class), ``message``, ``retries`` and, for a failed gate,
            ``report``.

    Raises:
        AirflowFailException: Another attempt would end the same way.
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
        # Skips, deferrals and reschedules are exceptions of Airflow, but no failures.
        raise
    except Exception as error:
        _leave(context, error, retries=True)
        raise


def _leave(context: Context | None, error: Exception, *, retries: bool) -> None:
    if context is None:
        return
    failure: dict[str, Any] = {
        "error": _name_of(error),
        "message": str(error)[:_MOST_MESSAGE_CHARS],
        "retries": retries,
    }
    if isinstance(error, GateError) and error.report is not None:
        failure["report"] = dict(error.report)
    try:
        context["ti"].xcom_push(key=FAILURE_KEY, value=failure)
    except Exception as lost:  # noqa: BLE001 - the error of the task is more important
        logger.warning("the page of the run will not have the message: %s", lost)


def _in_lines(error: Exception) -> str:
    """Return the message with one part per line, because pages cut long lines."""
    lines = []
    for line in str(error).splitlines():
        parts = line.split("; ") if len(line) > _LINE_CHARS else [line]
        lines.append(";\n  ".join(parts))
    return "\n".join(lines)


def _first_line(error: Exception) -> str:
    """Return the first line of the message; the log has the whole message above."""
    first, *rest = str(error).splitlines() or [""]
    return f"{first} (the whole message stands above)" if rest else first


def _name_of(error: Exception) -> str:
    """Return the name of the error's class; for a translated error, that of its cause."""
    cause = error.__cause__ if isinstance(error, AirflowFailException) else None
    return type(cause or error).__name__


def call_again(at: datetime) -> AirflowRescheduleException:
    """Return the exception by which Airflow calls a task again at ``at``.

    The task holds no slot until then, and the call does not count as a retry.
    """
    return AirflowRescheduleException(at)  # type: ignore[no-untyped-call]


# --- What a run did, in lines for people: in the log of its task, and on the page of the run

TOLD_KEY: Final = "told"

# An XCom is a row of a database.
_MOST_LINES: Final = 50
_MOST_RESULT_CHARS: Final = 1_000


def tell_result(context: Context, target: str, lines: Sequence[str]) -> None:
    """Log lines, and keep them as the XCom ``told``: ``target`` and ``lines``.

    Args:
        context: Context of the task.
        target: What the run is about, as ``flights/2013-01-02``.
        lines: What came of it, the result first.
    """
    for line in lines:
        logger.info("%s", line)
    more = len(lines) - _MOST_LINES
    shown = [line[:_MOST_RESULT_CHARS] for line in lines[:_MOST_LINES]]
    told = [*shown, f"… and {more} more lines in the log of the task"] if more > 0 else shown
    try:
        context["ti"].xcom_push(key=TOLD_KEY, value={"target": target, "lines": told})
    except Exception as lost:  # noqa: BLE001 - what the task did is done
        logger.warning("the page of the run will not have the result: %s", lost)


# --- A form of a DAG: what a person asked for, what came of it, and then the failure if any


class Done(NamedTuple):
    """What a form did.

    Attributes:
        target: What the run is about, as ``flights/2013-01-02``.
        lines: What came of it, the result first.
        report: Small JSON, which the task returns.
        failure: What is raised once the result is told; None if all went well.
    """

    target: str
    lines: Sequence[str]
    report: dict[str, Any]
    failure: Exception | None = None


class FormOperator(BaseOperator):
    """Carries out the form of a DAG, and tells the result also if it is a failure.

    Attributes:
        form: Names of the parameters; a run with another one is refused.
    """

    form: ClassVar[Sequence[str]]

    def execute(self, context: Context) -> dict[str, Any]:
        """Carry out the form, tell what came of it, and return the report."""
        with airflow_outcome(context):
            require_known(context["params"], *self.form)
            done = self.carry_out(context)
            tell_result(context, done.target, done.lines)
            if done.failure is not None:
                raise done.failure
        return done.report

    @abstractmethod
    def carry_out(self, context: Context) -> Done:
        """Do what the parameters of the run ask for."""
