"""Checkpoints of a training: their files, and the note that seals each of them."""

from trainfeed.training.checkpoints._checkpoint_file import Checkpoint, CheckpointNote
from trainfeed.training.checkpoints._checkpoints import CHECKPOINTS, Checkpoints

__all__ = ["CHECKPOINTS", "Checkpoint", "CheckpointNote", "Checkpoints"]
