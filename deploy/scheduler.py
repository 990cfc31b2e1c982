"""``python -m deploy.scheduler``: ``airflow scheduler`` with the imports of tasks.

The processes of tasks are forks of the scheduler's. A module that the scheduler has imported need
not be imported by a task, which then takes half the time. docs/authors/measured.md has the
figures.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from importlib import import_module

from deploy.settings import PARTS, TASK_MODULES


def main() -> None:
    """Import the modules of tasks, then run the scheduler."""
    for module in TASK_MODULES:
        import_module(module)
    gc.freeze()  # a collection would touch, and so copy, every page that the tasks share
    scheduler: Callable[[], None] = import_module("airflow.__main__").main
    sys.argv = ["airflow", *PARTS["scheduler"]]
    scheduler()


if __name__ == "__main__":
    main()
