"""Paths of files: which ones are meant, what refuses them, and how one appears when it is whole."""

from trainfeed.paths._errors import os_errors
from trainfeed.paths._expand import expand_paths
from trainfeed.paths._names import FilePath, path_of
from trainfeed.paths._new_file import NewFile, write_all
from trainfeed.paths._regular import open_regular, read_regular

__all__ = [
    "FilePath",
    "NewFile",
    "expand_paths",
    "open_regular",
    "os_errors",
    "path_of",
    "read_regular",
    "write_all",
]
