"""Folders of log files."""

from trainfeed.sources.logs._logs_folder import (
    CompleteRule,
    LogFile,
    find_logs,
    list_logs,
    present_logs,
)
from trainfeed.sources.logs._logs_lines import LineRange, iter_lines

__all__ = [
    "CompleteRule",
    "LineRange",
    "LogFile",
    "find_logs",
    "iter_lines",
    "list_logs",
    "present_logs",
]
