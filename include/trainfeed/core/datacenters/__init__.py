"""Shared storage of data centres: its paths, and the file that says where this machine finds it.

A data centre has a home folder for each user and a public folder. The path of a file there has two
forms: ``pfs://home/x`` is short, for the user and the data centre of ``~/.trainfeed/config``;
``/pfs/<datacenter>/home/<user>/x`` is complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.core.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.core.datacenters.config_file import config_path, read_datacenters
    from trainfeed.core.datacenters.pfs_path import (
        Area,
        Datacenter,
        Datacenters,
        PfsPath,
        area_folder,
        local_path,
        require_user,
    )
    from trainfeed.core.datacenters.shared_places import (
        SharedPlace,
        is_available,
        is_shared,
        local_matches,
        local_source,
        local_target,
        shared_place,
    )

__all__ = [
    "Area",
    "Datacenter",
    "Datacenters",
    "PfsPath",
    "SharedPlace",
    "area_folder",
    "config_path",
    "is_available",
    "is_shared",
    "local_matches",
    "local_path",
    "local_source",
    "local_target",
    "read_datacenters",
    "require_user",
    "shared_place",
]

# Every process that opens a file imports this room; few of them need more than the face.

__getattr__ = on_demand(__name__)
