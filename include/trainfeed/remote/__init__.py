"""Versions at a store, read chunk by chunk through a cache on disk that knows what comes next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.core.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.remote.index import INDEX, RootIndex, write_index
    from trainfeed.remote.roots import RemoteRoot
    from trainfeed.remote.shards import RemoteShards

__all__ = ["INDEX", "RemoteRoot", "RemoteShards", "RootIndex", "write_index"]

# Worker processes of a loader import this package for the shards alone, and no manifests.

__getattr__ = on_demand(__name__)
