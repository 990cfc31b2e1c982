"""Training jobs: one per (data set, interval, contents, configuration), launched at most once."""

from trainfeed.training._job import TrainingJob

__all__ = ["TrainingJob"]
