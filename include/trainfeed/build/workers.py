"""Worker processes for user functions, started before the rest of a stage is even imported."""

from trainfeed.build._engine import start_workers

__all__ = ["start_workers"]
