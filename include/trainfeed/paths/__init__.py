"""Paths of files: expanding patterns, opening plain files, and naming new files once complete."""

from trainfeed.paths._errors import ERRNO_KINDS, kind_of_errno, os_errors, storage_error
from trainfeed.paths._expand import expand_paths
from trainfeed.paths._file_names import (
    FilePath,
    is_unfinished,
    make_folders,
    open_emptied,
    path_of,
    unfinished_name,
)
from trainfeed.paths._listing import is_there, listed, listed_folder, matching, walk
from trainfeed.paths._new_file import NewFile, UnfinishedFile, claim_name
from trainfeed.paths._plain_files import open_plain, plain_fd, plain_size, read_plain
from trainfeed.paths._shard_names import (
    MAX_SHARDS,
    ShardName,
    check_prefix,
    commit_name,
    manifest_name,
    num_shards_of,
    shard_name,
)
from trainfeed.paths._shard_sets import FileMark, SetWatch, ShardSize, mark_of
from trainfeed.paths._target_writer import TargetWriter
from trainfeed.paths._written import DigestedFile, TargetFile, durable_file, sync_folder, write_all

__all__ = [
    "ERRNO_KINDS",
    "MAX_SHARDS",
    "DigestedFile",
    "FileMark",
    "FilePath",
    "NewFile",
    "SetWatch",
    "ShardName",
    "ShardSize",
    "TargetFile",
    "TargetWriter",
    "UnfinishedFile",
    "check_prefix",
    "claim_name",
    "commit_name",
    "durable_file",
    "expand_paths",
    "is_there",
    "is_unfinished",
    "kind_of_errno",
    "listed",
    "listed_folder",
    "make_folders",
    "manifest_name",
    "mark_of",
    "matching",
    "num_shards_of",
    "open_emptied",
    "open_plain",
    "os_errors",
    "path_of",
    "plain_fd",
    "plain_size",
    "read_plain",
    "shard_name",
    "storage_error",
    "sync_folder",
    "unfinished_name",
    "walk",
    "write_all",
]
