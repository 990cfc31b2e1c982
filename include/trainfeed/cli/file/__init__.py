"""The commands ``trainfeed file …`` and ``process-base64``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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

_HOMES: Final = {
    "app": "._file_commands",
    "print_samples": "._file_text",
    "print_statistics": "._file_stats",
    "process_base64": "._base64_command",
    "progress": "._file_options",
}

__getattr__ = on_demand(__name__, _HOMES)
