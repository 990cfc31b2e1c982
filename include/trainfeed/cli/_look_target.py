"""Targets of commands: ``NAME``, ``NAME/RANGE`` or ``NAME/INTERVAL/gNNNN``.

RANGE has the forms of ``trainfeed.intervals.parse_range``, so ``NAME/FIRST/LAST`` is allowed, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trainfeed.config import Environment, environment_from_environ
from trainfeed.dataset import Coverage, DatasetFolder, Version, cover, require_readable_root
from trainfeed.dataset.layout import is_generation, is_name, parse_generation
from trainfeed.dataset.root import data_sets_of
from trainfeed.errors import ConfigError, NotFoundError, TrainFeedError
from trainfeed.intervals import parse_range
from trainfeed.specification import RESERVED_NAMES, SPEC_FILE, did_you_mean
from trainfeed.storage.posix import map_errors

__all__ = [
    "LookTarget",
    "complete_target",
    "known_folder",
    "parse_target",
    "readable_environment",
    "specified",
    "version_of",
]


@dataclass(frozen=True)
class LookTarget:
    """A data set, and the selected intervals of it.

    Attributes:
        folder: The data set below the publication root.
        asked: An interval or a range; None for the whole data set.
        generation: The generation of the one interval; None for the one that readers get.
    """

    folder: DatasetFolder
    asked: str | None = None
    generation: int | None = None

    def one(self) -> Version:
        """Open the one version of the target.

        Raises:
            ConfigError: The target is the whole data set, or a range of several intervals.
            WindowError: The interval is not valid.
            NotFoundError: The version is not published.
        """
        if self.asked is None:
            raise ConfigError(
                f"expected NAME/INTERVAL or NAME/INTERVAL/gNNNN, got {self.folder.name!r}"
            )
        if self.generation is not None:
            return Version.resolve(self.folder, self.asked, self.generation)
        found = self.coverage()
        found.require("fail")
        if len(found.versions) > 1:
            raise ConfigError(
                f"expected one interval, {self.asked} has {len(found.versions)}; name one, such as"
                f" {self.folder.name}/{found.versions[0].path.parent.name}"
            )
        return found.versions[0]

    def is_range(self) -> bool:
        """Return whether the target may have several versions, so that results are a list."""
        if self.asked is None or self.generation is not None:
            return self.asked is None
        return "/" in self.asked or not _is_published(self.folder, self.asked)

    def coverage(self) -> Coverage:
        """Return the state of the intervals of the range."""
        return cover(self.folder, self.asked or "")


def _is_published(folder: DatasetFolder, name: str) -> bool:
    return is_name(name) and folder.readable_generation(name) is not None


def parse_target(text: str) -> LookTarget:
    """Read a target of a known data set.

    Raises:
        ConfigError: ``text`` is no target.
        WindowError: The range is not valid.
        NotFoundError: The data set is unknown; the message has the nearest name.
        RootError: The publication root was not made by ``trainfeed init``.
    """
    name, _, rest = text.partition("/")
    asked, slash, last = rest.rpartition("/")
    folder = known_folder(name)
    if slash and is_generation(last):
        parse_range(asked)
        return LookTarget(folder, asked, parse_generation(last))
    if not rest:
        return LookTarget(folder)
    parse_range(rest)
    return LookTarget(folder, rest)


def version_of(text: str) -> Version:
    """Open the one version of a target."""
    return parse_target(text).one()


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
        if not slash:
            found = sorted({*specified(env), *data_sets_of(Path(env.root))})
        else:
            found = [f"{name}/{each}" for each in DatasetFolder(Path(env.root), name).intervals()]
    except (TrainFeedError, OSError):
        # A shell that completes names cannot show a message.
        return []
    return [each for each in found if each.startswith(incomplete)]


def _require_known(env: Environment, name: str) -> None:
    known = sorted({*specified(env), *data_sets_of(Path(env.root))})
    if name not in known:
        hint = did_you_mean(name, known) if known else f"make one: trainfeed new {name}"
        raise NotFoundError(
            f"expected a data set of {env.datasets} or {env.root}, got {name!r}; {hint}"
        )
