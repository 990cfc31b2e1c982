"""Folders of ``dataset.yaml`` on the stores of an environment."""

from __future__ import annotations

from trainfeed.config import Environment
from trainfeed.errors import ConfigError
from trainfeed.specification import StoreFolderSpec
from trainfeed.storage import Location

__all__ = ["store_place"]


def store_place(env: Environment, folder: StoreFolderSpec) -> Location:
    """Return the location of a folder on its store.

    Raises:
        ConfigError: The environment has no such connection, or its place is not valid.
    """
    start = env.stores.get(folder.connection)
    if start is None:
        known = ", ".join(sorted(env.stores)) or "none"
        raise ConfigError(
            f"expected a connection {folder.connection!r} for {folder.path}, the ones for models"
            f" are: {known}; nothing was copied; define it, or correct dataset.yaml"
        )
    return Location.parse(start) / folder.path.removeprefix("/")
