"""What a run did, in lines for people: in the log of its task, and on the page of the run.

The lines are those that the command prints. A page of a browser shows no log, and a log is not what
a person opens who has filled in a form.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["TOLD_KEY", "tell_result"]

logger = logging.getLogger(__name__)

TOLD_KEY: Final = "told"

# An XCom is a row of a database.
_MOST_LINES: Final = 50
_MOST_CHARS: Final = 1_000


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
    shown = [line[:_MOST_CHARS] for line in lines[:_MOST_LINES]]
    told = [*shown, f"… and {more} more lines in the log of the task"] if more > 0 else shown
    try:
        context["ti"].xcom_push(key=TOLD_KEY, value={"target": target, "lines": told})
    except Exception as lost:  # noqa: BLE001 - what the task did is done
        logger.warning("the page of the run will not have the result: %s", lost)
