"""``trainfeed train``, ``jobs`` and ``models``: trainings, where they run, and what they make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.cli.training._jobs import app as jobs
    from trainfeed.cli.training._models import app as models
    from trainfeed.cli.training._train_command import train

__all__ = [
    "jobs",
    "models",
    "train",
]


__getattr__ = on_demand(__name__, __file__)
