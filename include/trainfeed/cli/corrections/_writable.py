"""The data set that a command corrects: known, and below a root that may be written."""

from __future__ import annotations

from trainfeed.cli._known_datasets import known_folder
from trainfeed.config import environment_from_environ
from trainfeed.dataset import DatasetFolder, require_writable_root

__all__ = ["writable_folder"]


def writable_folder(name: str) -> DatasetFolder:
    """Return the folder of a known data set.

    Raises:
        ConfigError: The root is that of public sets.
        NotFoundError: The data set is unknown; the message has the nearest name.
        RootError: The publication root was not made by ``trainfeed init``.
    """
    require_writable_root(environment_from_environ())
    return known_folder(name)
