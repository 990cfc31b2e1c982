"""The command line: ``trainfeed …``."""

from trainfeed.cli._app import main

__all__ = ["main"]
