"""Trees of files that copies read and write: one protocol for machines, mounts and servers."""

from trainfeed.pfs.trees._area_names import address_in_area, require_area_names, shown_in_area
from trainfeed.pfs.trees._digest_kind import DigestKind
from trainfeed.pfs.trees._local_tree import LocalTree
from trainfeed.pfs.trees._mounted_tree import MountedTree
from trainfeed.pfs.trees._tree_protocol import Source, Target, Tree
from trainfeed.pfs.trees._tree_values import (
    CHUNK_BYTES,
    SMALL_BYTES,
    Entry,
    FileDigests,
    Kind,
    Parts,
    SmallFile,
    SourceState,
    chunk_count,
    chunk_size,
    is_unfinished_name,
    unfinished_file_name,
)

__all__ = [
    "CHUNK_BYTES",
    "SMALL_BYTES",
    "DigestKind",
    "Entry",
    "FileDigests",
    "Kind",
    "LocalTree",
    "MountedTree",
    "Parts",
    "SmallFile",
    "Source",
    "SourceState",
    "Target",
    "Tree",
    "address_in_area",
    "chunk_count",
    "chunk_size",
    "is_unfinished_name",
    "require_area_names",
    "shown_in_area",
    "unfinished_file_name",
]
