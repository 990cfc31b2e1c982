"""Retention of trainings: outputs, checkpoints and logs go; job file and result stay."""

from trainfeed.retention.trainings._training_kind import Trainings

__all__ = ["Trainings"]
