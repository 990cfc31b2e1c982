"""The imports of a ``train.py``, and the launch of trainings, never two of one job at once.

    from trainfeed.training import DatasetReader, TrainingJob

``DataLoader`` and ``ConfigError`` are here too, so that the author of a training imports nothing
else of trainfeed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.core.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.errors import ConfigError
    from trainfeed.loader import DataLoader
    from trainfeed.readers import DatasetReader
    from trainfeed.training.checkpoints import Checkpoint
    from trainfeed.training.training_job import TrainingJob

__all__ = ["Checkpoint", "ConfigError", "DataLoader", "DatasetReader", "TrainingJob"]

# A rank imports this package before it watches for the death of its launcher, so the import must be
# fast: each name is loaded on first use.

__getattr__ = on_demand(__name__)
