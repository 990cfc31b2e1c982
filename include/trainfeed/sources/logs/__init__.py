"""Folders of log files."""

from trainfeed.sources.logs._logs_entries import FolderEntries
from trainfeed.sources.logs._logs_folder import (
    CompleteRule,
    FoundLogs,
    LogFile,
    find_logs,
    list_entries,
)
from trainfeed.sources.logs._logs_lines import LineRange, iter_lines

__all__ = [
    "CompleteRule",
    "FolderEntries",
    "FoundLogs",
    "LineRange",
    "LogFile",
    "find_logs",
    "iter_lines",
    "list_entries",
]
