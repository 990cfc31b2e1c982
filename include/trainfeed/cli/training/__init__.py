"""``trainfeed train``, ``jobs`` and ``models``: trainings, where they run, and what they make."""

from trainfeed.cli.training._jobs import app as jobs
from trainfeed.cli.training._models import app as models
from trainfeed.cli.training._train_command import train

__all__ = ["jobs", "models", "train"]
