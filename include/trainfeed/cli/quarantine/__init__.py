"""``trainfeed quarantine``: records that builds turned down; their bytes, preview and replay."""

from trainfeed.cli.quarantine._quarantine_commands import app

__all__ = ["app"]
