"""Trainings and models in the tools that people watch them with: TensorBoard, MLflow.

Ranks write event files; the side that launches trainings delivers to MLflow, because ranks get no
credentials.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.core.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.training.tracking.delivery import Tracker, deliver_cancellation, deliver_change
    from trainfeed.training.tracking.mlflow import tracker_settings
    from trainfeed.training.tracking.tensorboard import TENSORBOARD, EventFiles

__all__ = [
    "TENSORBOARD",
    "EventFiles",
    "Tracker",
    "deliver_cancellation",
    "deliver_change",
    "tracker_settings",
]

# Ranks import this package and need the event files only.

__getattr__ = on_demand(__name__)
