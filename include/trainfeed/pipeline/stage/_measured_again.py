"""What a missing or damaged work file leads to: the next build makes all of them anew."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from trainfeed.dataset.waive import lift_refused
from trainfeed.errors import FormatError, GateError, NotFoundError
from trainfeed.pipeline.stage._opened_stage import Stage

__all__ = ["measured_again"]


@contextmanager
def measured_again(stage: Stage) -> Iterator[None]:
    """Have the next build make all work files anew if the block finds one missing or damaged.

    The block reads work files and nothing else: another file that is damaged, such as one of a
    version to compare with, says nothing about them.
    """
    try:
        yield
    except (FormatError, GateError, NotFoundError):
        lift_refused(stage.folder, stage.plan.interval["name"], stage.plan.plan_id)
        raise
