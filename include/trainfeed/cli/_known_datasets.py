"""The data sets of the environment: their names, the folder of one, and their completion.

Nothing here opens a version, so that a list of data sets does not wait for Arrow and NumPy.
"""

from __future__ import annotations

from pathlib import Path

from trainfeed.config import Environment, environment_from_environ
from trainfeed.dataset import DatasetFolder, require_readable_root
from trainfeed.dataset.layout import is_name
from trainfeed.dataset.root import data_sets_of
from trainfeed.errors import NotFoundError, TrainFeedError
from trainfeed.specification import RESERVED_NAMES, SPEC_FILE, did_you_mean
from trainfeed.storage.posix import map_errors

__all__ = ["complete_target", "known_folder", "readable_environment", "specified"]


def readable_environment() -> Environment:
    """Return the environment; refuse a root that is none, which would look like an empty one."""
    env = environment_from_environ()
    require_readable_root(Path(env.root), env.root_setting)
    return env


def known_folder(name: str) -> DatasetFolder:
    """Return the folder of a data set that has a version or a specification.

    Raises:
        NotFoundError: The data set is unknown; the message has the nearest name.
    """
    env = readable_environment()
    if name in RESERVED_NAMES and name not in data_sets_of(Path(env.root)):
        raise NotFoundError(
            f"expected a data set, got {name!r}, which is no name of one; for models: trainfeed"
            " models ls"
        )
    folder = DatasetFolder(Path(env.root), name)
    if not folder.path.is_dir():
        _require_known(env, name)
    return folder


def specified(env: Environment) -> list[str]:
    """Return the names of the folders of data sets, also with a wrong specification."""
    with map_errors(env.datasets):
        if not env.datasets.is_dir():
            return []
        places = [path for path in env.datasets.iterdir() if is_name(path.name)]
        return [path.name for path in places if _is_seen(path / SPEC_FILE)]


def _is_seen(path: Path) -> bool:
    """Return whether a path exists; one in a folder that this account may not enter does."""
    try:
        return path.exists()
    except PermissionError:
        return True


def complete_target(incomplete: str) -> list[str]:
    """Return the targets that begin with the typed text: data sets, then intervals."""
    try:
        env = environment_from_environ()
        name, slash, _ = incomplete.partition("/")
        if not slash and "@" in name:
            found = _tagged(env, name.partition("@")[0])
        elif not slash:
            found = sorted({*specified(env), *data_sets_of(Path(env.root))})
        else:
            found = [f"{name}/{each}" for each in DatasetFolder(Path(env.root), name).intervals()]
    except (TrainFeedError, OSError):
        # A shell that completes names cannot show a message.
        return []
    return [each for each in found if each.startswith(incomplete)]


def _tagged(env: Environment, name: str) -> list[str]:
    from trainfeed.dataset.tag_files import current_tags

    return [f"{name}@{tag.tag}" for tag in current_tags(DatasetFolder(Path(env.root), name))]


def _require_known(env: Environment, name: str) -> None:
    known = sorted({*specified(env), *data_sets_of(Path(env.root))})
    if name not in known:
        hint = did_you_mean(name, known) if known else f"make one: trainfeed new {name}"
        raise NotFoundError(
            f"expected a data set of {env.datasets} or {env.root}, got {name!r}; {hint}"
        )
