"""The publication root of public sets: ``dataset`` in the public folder of a data centre."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from trainfeed.config import PUBLIC_FOLDER, public_folder
from trainfeed.datacenters import config_path, local_source, local_target
from trainfeed.errors import ConfigError
from trainfeed.paths import os_errors

__all__ = ["PUBLIC_ROOT", "known_public_root", "public_root", "publishing_root"]

# The publication root of public sets, as a path of shared storage.
PUBLIC_ROOT: Final = "pfs://public/dataset"


def public_root(root: str | os.PathLike[str] | None = None) -> Path:
    """Return the publication root of public sets, for readers.

    Args:
        root: The root, as a folder or as ``pfs://public/…``; by default the folder ``dataset`` of
            ``TRAINFEED_PUBLIC``, or else of the public folder of the current data centre.

    Raises:
        ConfigError: No root is given and none is known, the file of data centres is wrong, or the
            public folder of the data centre is not mounted on this machine.
    """
    if root is not None:
        return Path(local_source(root)).absolute()
    if (found := known_public_root()) is None:
        raise ConfigError(
            f"expected {PUBLIC_FOLDER} to name the public folder of a data centre, or a data centre"
            f" in {config_path()}, got neither; nothing was read; set the variable, or name the"
            " root of the public sets"
        )
    return found


def known_public_root() -> Path | None:
    """Return the root of ``TRAINFEED_PUBLIC`` or of the current data centre, None without both.

    Raises:
        AccessDeniedError: This account may not look for the file of data centres.
        ConfigError: The file of data centres is wrong, or the public folder of the data centre is
            not mounted on this machine.
    """
    if (folder := public_folder()) is not None:
        return folder / "dataset"
    path = config_path()
    with os_errors(path):
        is_there = path.exists()
    return Path(local_source(PUBLIC_ROOT)) if is_there else None


def publishing_root(root: str | os.PathLike[str] | None = None) -> Path:
    """Return the publication root of public sets, for builds.

    A build names the folder: users mount the public area read-only, and no path ``pfs://public/…``
    is ever written through.

    Args:
        root: The root as a folder; by default the folder ``dataset`` of ``TRAINFEED_PUBLIC``.

    Raises:
        ConfigError: No root is given, and the variable is not set.
        AccessDeniedError: The root is a path ``pfs://public/…``.
    """
    if root is not None:
        return Path(local_target(root)).absolute()
    if (folder := public_folder()) is None:
        raise ConfigError(
            f"expected {PUBLIC_FOLDER} to name the public folder of a data centre on a mount that"
            " may be written, it is not set; nothing was built; set it, or name the publication"
            " root with --root"
        )
    return folder / "dataset"
