"""The commands ``trainfeed file …`` and ``process-base64``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.cli.file._base64_command import process_base64
    from trainfeed.cli.file._file_commands import app
    from trainfeed.cli.file._file_options import progress
    from trainfeed.cli.file._file_stats import print_statistics
    from trainfeed.cli.file._file_text import print_samples

__all__ = [
    "app",
    "print_samples",
    "print_statistics",
    "process_base64",
    "progress",
]


__getattr__ = on_demand(__name__, __file__)
