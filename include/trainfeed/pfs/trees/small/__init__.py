"""Calls for many small files of a POSIX tree: read, written and named in groups."""

from trainfeed.pfs.trees.small._small_calls import SmallCalls

__all__ = ["SmallCalls"]
