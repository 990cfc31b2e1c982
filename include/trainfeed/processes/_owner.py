"""Passes that threads or processes make go on in the process that began them, and in no fork."""

from __future__ import annotations

import os

from trainfeed.errors import LoaderError

__all__ = ["require_owner"]


def require_owner(owner: int) -> None:
    """Raise in a fork: its copy of a pass has no threads, and would take from its parent's.

    Args:
        owner: Id of the process that began the pass.

    Raises:
        LoaderError: This is another process.
    """
    if os.getpid() != owner:
        raise LoaderError(
            f"expected a pass to go on in process {owner}, which began it, got process"
            f" {os.getpid()}, a fork of it; start a pass of its own there, from a state if it has"
            " to begin where this one stands"
        )
