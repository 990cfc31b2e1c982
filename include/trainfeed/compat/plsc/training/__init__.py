"""The training of an ``Entry`` with PaddlePaddle: ranks, heads, steps, passes, checkpoints."""

from trainfeed.compat.plsc.training._classifier import Classifier
from trainfeed.compat.plsc.training._heads import Head
from trainfeed.compat.plsc.training._learning_rate import learning_rate, steps_per_pass
from trainfeed.compat.plsc.training._passes_of_training import Training, accuracy
from trainfeed.compat.plsc.training._ranks import Ranks
from trainfeed.compat.plsc.training._save_pass import remove_unfinished, save_checkpoint
from trainfeed.compat.plsc.training._saved_passes import (
    CheckpointNote,
    Saved,
    newest_checkpoint,
    read_checkpoint,
    saved_passes,
)

__all__ = [
    "CheckpointNote",
    "Classifier",
    "Head",
    "Ranks",
    "Saved",
    "Training",
    "accuracy",
    "learning_rate",
    "newest_checkpoint",
    "read_checkpoint",
    "remove_unfinished",
    "save_checkpoint",
    "saved_passes",
    "steps_per_pass",
]
