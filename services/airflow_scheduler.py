"""``python -m services.airflow_scheduler``: ``airflow scheduler`` with what tasks import.

The processes of tasks are forked from the scheduler's. What it has imported by then, no task has to
import again: a task costs half the time. docs/authors/measured-month.md has the figures.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from importlib import import_module

from services._airflow_config import PARTS, TASK_MODULES

__all__ = ["main"]


def main() -> None:
    """Import, then be the scheduler."""
    for module in TASK_MODULES:
        import_module(module)
    gc.freeze()  # a collection would touch, and so copy, every page that the tasks share
    scheduler: Callable[[], None] = import_module("airflow.__main__").main
    sys.argv = ["airflow", *PARTS["scheduler"]]
    scheduler()


if __name__ == "__main__":
    main()
