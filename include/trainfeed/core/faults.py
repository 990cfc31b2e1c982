"""Named points at which tests kill, stop or fail a process; no-ops otherwise.

``TRAINFEED_FAULTS`` holds ``point:action`` pairs, separated by commas. An action is ``kill``
(SIGKILL), ``stop`` (SIGSTOP) or the name of an errno, which is raised as ``OSError``. A third
part, ``point:action:folder``, makes the fault fire once: the first process that can create
``folder/<point>.fired`` takes it, so a retry gets through.
"""

from __future__ import annotations

import errno
import os
import signal
from functools import cache
from pathlib import Path
from typing import NamedTuple

VARIABLE = "TRAINFEED_FAULTS"


class _Fault(NamedTuple):
    action: str
    once_in: str | None


def point(name: str) -> None:
    """Mark a place where a process may die; does nothing unless a test names it.

    Args:
        name: ``<stage>.<place>``, for instance ``publish.before_rename``.
    """
    fault = _plan().get(name)
    if fault is not None and _armed(name, fault):
        _strike(name, fault.action)


@cache
def _plan() -> dict[str, _Fault]:
    # Read here, not in trainfeed.core.config, because rooms below that module may have points, too.
    plan = {}
    for entry in filter(None, os.environ.get(VARIABLE, "").split(",")):  # noqa: TID251
        name, action, *rest = entry.split(":", 2)
        plan[name] = _Fault(action, rest[0] if rest else None)
    return plan


def _armed(name: str, fault: _Fault) -> bool:
    if fault.once_in is None:
        return True
    try:
        (Path(fault.once_in) / f"{name}.fired").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _strike(name: str, action: str) -> None:
    if action in {"kill", "stop"}:
        os.kill(os.getpid(), signal.SIGKILL if action == "kill" else signal.SIGSTOP)
        return
    number = getattr(errno, action)
    raise OSError(number, f"{os.strerror(number)} (injected at {name})")
