"""The folder of a data set that a form names: known, or an error with the nearest name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from operators.datasets import datasets_folder
from trainfeed.errors import NotFoundError
from trainfeed.paths import listed
from trainfeed.specification import SPEC_FILE, did_you_mean

if TYPE_CHECKING:
    from trainfeed.config import Environment
    from trainfeed.dataset import DatasetFolder

__all__ = ["known_folder", "specified_names"]


def known_folder(env: Environment, name: str) -> DatasetFolder:
    """Return the folder of a data set that has a version or a specification.

    Raises:
        RootError: The publication root was not made by ``trainfeed init``.
        NotFoundError: The data set is unknown; the message has the nearest name.
    """
    from trainfeed.dataset import DatasetFolder, require_writable_root
    from trainfeed.dataset.root import data_sets_of

    require_writable_root(env)
    known = sorted({*specified_names(), *data_sets_of(Path(env.root))})
    if name not in known:
        raise NotFoundError(
            f"expected a data set of {datasets_folder()} or {env.root}, got {name!r}; nothing was"
            f" read or changed; {did_you_mean(name, known)}"
        )
    return DatasetFolder(Path(env.root), name)


def specified_names() -> list[str]:
    """Return the names of the data sets with a specification, sorted."""
    places = listed(datasets_folder())
    return sorted(place.name for place in places if (place / SPEC_FILE).is_file())
