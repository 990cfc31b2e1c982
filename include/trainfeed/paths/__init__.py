"""Paths of files: which ones are meant, what refuses them, and how one appears when it is whole."""

from trainfeed.paths._errors import os_errors
from trainfeed.paths._expand import expand_paths
from trainfeed.paths._modes import make_folders, new_file
from trainfeed.paths._names import FilePath, path_of
from trainfeed.paths._new_file import NewFile, write_all
from trainfeed.paths._regular import open_regular, read_regular
from trainfeed.paths._shard_sets import SetWatch, commit_name, manifest_name

__all__ = [
    "FilePath",
    "NewFile",
    "SetWatch",
    "commit_name",
    "expand_paths",
    "make_folders",
    "manifest_name",
    "new_file",
    "open_regular",
    "os_errors",
    "path_of",
    "read_regular",
    "write_all",
]
