"""Copies between trees: by chunks that are compared, resumed after a kill, complete or absent."""

from trainfeed.pfs.transfer._copy_call import copy_places
from trainfeed.pfs.transfer._copy_globs import expanded, is_there
from trainfeed.pfs.transfer._copy_values import (
    CopyOptions,
    FileOutcome,
    Place,
    Stopped,
)
from trainfeed.pfs.transfer._rate_limit import RateLimit
from trainfeed.pfs.transfer._unfinished_folder import ABANDONED_S, may_be_removed

__all__ = [
    "ABANDONED_S",
    "CopyOptions",
    "FileOutcome",
    "Place",
    "RateLimit",
    "Stopped",
    "copy_places",
    "expanded",
    "is_there",
    "may_be_removed",
]
