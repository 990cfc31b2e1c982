"""Folders that appear whole by one rename, with their manifest files: versions and models."""

from trainfeed.dataset._intact import compare_file
from trainfeed.dataset.publication._manifest_file import (
    folder_problems,
    read_manifest_file,
    write_manifest_file,
)
from trainfeed.dataset.publication._staging import (
    StagedFile,
    commit_folder,
    confirm_folder,
    seal_folder,
)

__all__ = [
    "StagedFile",
    "commit_folder",
    "compare_file",
    "confirm_folder",
    "folder_problems",
    "read_manifest_file",
    "seal_folder",
    "write_manifest_file",
]
