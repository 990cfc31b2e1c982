"""Files of shared storage on a mount of this machine."""

from __future__ import annotations

from pathlib import Path

from trainfeed.datacenters._datacenter import Datacenter
from trainfeed.datacenters._pfs_path import PfsPath
from trainfeed.errors import AccessDeniedError, ConfigError

__all__ = ["area_folder", "local_path"]


def area_folder(path: PfsPath, datacenter: Datacenter) -> Path:
    """Return the folder of this machine on which the area of ``path`` is mounted.

    Whether it is there is not looked at.

    Raises:
        ConfigError: The path is in another data centre.
        AccessDeniedError: The path is in the home of another user.
    """
    if path.datacenter != datacenter.name:
        raise ConfigError(
            f"expected a path in the data centre {datacenter.name}, got {path}; name its data"
            " centre, or correct the path"
        )
    if path.user not in (None, datacenter.username):
        raise AccessDeniedError(
            f"expected a path in the home of {datacenter.username}, got {path}, which is another"
            " user's; nothing was read or written; ask for a copy in the public folder"
        )
    return datacenter.folder(path.area)


def local_path(path: PfsPath, datacenter: Datacenter) -> Path:
    """Return the path of a file on the mount of its area; raises as ``area_folder`` does.

    The file need not be there, and links are not looked at: programs that may meet links of others
    open the file beneath ``area_folder`` without following links.
    """
    return area_folder(path, datacenter).joinpath(*path.parts)
