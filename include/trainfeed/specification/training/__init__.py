"""The part ``train`` of a specification: launch, model, gates, tracking."""

from trainfeed.specification.training._model_part import MetricGate, ModelSpec, StoreFolderSpec
from trainfeed.specification.training._tracking_part import TrackingSpec
from trainfeed.specification.training._train_part import (
    GpuSpec,
    LauncherName,
    TolerationSpec,
    TrainingWish,
    TrainSpec,
    train_contradictions,
)

__all__ = [
    "GpuSpec",
    "LauncherName",
    "MetricGate",
    "ModelSpec",
    "StoreFolderSpec",
    "TolerationSpec",
    "TrackingSpec",
    "TrainSpec",
    "TrainingWish",
    "train_contradictions",
]
