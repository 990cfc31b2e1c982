"""Trainings in the tools that people watch them with: event files of TensorBoard."""

from trainfeed.tracking._event_files import TENSORBOARD, EventFiles

__all__ = ["TENSORBOARD", "EventFiles"]
