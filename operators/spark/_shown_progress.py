"""How far an application is → an XCom of its task, which the page of the run shows."""

from __future__ import annotations

import logging
import time
from typing import Any, Final

__all__ = ["ShownProgress"]

logger = logging.getLogger(__name__)

_KEY: Final = "progress"

# An XCom is a request to the API server and a row of the database; the page is read every 10 s.
_PAUSE_S: Final = 5.0


class ShownProgress:
    """Called with every progress; leaves it for the page now and then.

    Args:
        task: The running task instance of Airflow.
    """

    def __init__(self, task: Any) -> None:
        self._task = task
        self._next_s = 0.0

    def __call__(self, progress: str) -> None:
        """Leave a progress, unless the last one is only seconds old."""
        now_s = time.monotonic()
        if now_s < self._next_s:
            return
        self._next_s = now_s + _PAUSE_S
        try:
            self._task.xcom_push(key=_KEY, value={"progress": progress})
        except Exception:
            # A build does not fail because a page cannot show how far it is.
            logger.warning("the progress could not be shown", exc_info=True)
