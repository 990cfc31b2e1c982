"""What commands are told to look at: ``NAME``, ``NAME/RANGE`` or ``NAME/INTERVAL/gNNNN``.

RANGE is what ``trainfeed.intervals.parse_range`` reads, so ``NAME/FIRST/LAST`` is one, too.
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
    """A data set, and what of it.

    Attributes:
        folder: The data set below the publication root.
        asked: An interval or a range; None for the whole data set.
        generation: The generation of the one interval; None for what readers get.
    """

    folder: DatasetFolder
    asked: str | None = None
    generation: int | None = None

    def one(self) -> Version:
        """Open the one version that is meant.

        Raises:
            ConfigError: It is the whole data set, or a range of several intervals.
            WindowError: The interval is none.
            NotFoundError: It is not published.
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
        """Whether several versions may be meant, so that there is a list of results."""
        if self.asked is None or self.generation is not None:
            return self.asked is None
        return "/" in self.asked or not _is_published(self.folder, self.asked)

    def coverage(self) -> Coverage:
        """What is there of the range."""
        return cover(self.folder, self.asked or "")


def _is_published(folder: DatasetFolder, name: str) -> bool:
    return is_name(name) and folder.readable_generation(name) is not None


def parse_target(text: str) -> LookTarget:
    """Read a target; the data set is one that is known here.

    Raises:
        ConfigError: ``text`` is no target.
        WindowError: Its range is none.
        NotFoundError: There is no such data set; names the nearest.
        RootError: The publication root is none.
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
    """Open the one version that a text names."""
    return parse_target(text).one()


def readable_environment() -> Environment:
    """Return where things are; a root that is none would look like one without versions."""
    env = environment_from_environ()
    require_readable_root(Path(env.root), env.root_setting)
    return env


def known_folder(name: str) -> DatasetFolder:
    """Return the folder of a data set that has a version or a specification.

    Raises:
        NotFoundError: There is no such data set; names the nearest.
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
    """Return the data sets that have a folder, also those whose specification is wrong."""
    with map_errors(env.datasets):
        if not env.datasets.is_dir():
            return []
        places = [path for path in env.datasets.iterdir() if is_name(path.name)]
        return [path.name for path in places if _is_seen(path / SPEC_FILE)]


def _is_seen(path: Path) -> bool:
    """Return whether it is there; what this account may not look into is taken to be."""
    try:
        return path.exists()
    except PermissionError:
        return True


def complete_target(incomplete: str) -> list[str]:
    """Return the targets that begin with what was typed: data sets, then intervals of one."""
    try:
        env = environment_from_environ()
        name, slash, _ = incomplete.partition("/")
        if not slash:
            found = sorted({*specified(env), *data_sets_of(Path(env.root))})
        else:
            found = [f"{name}/{each}" for each in DatasetFolder(Path(env.root), name).intervals()]
    except (TrainFeedError, OSError):
        # A shell that asks for names has no use for a message.
        return []
    return [each for each in found if each.startswith(incomplete)]


def _require_known(env: Environment, name: str) -> None:
    known = sorted({*specified(env), *data_sets_of(Path(env.root))})
    if name not in known:
        hint = did_you_mean(name, known) if known else f"make one: trainfeed new {name}"
        raise NotFoundError(
            f"expected a data set of {env.datasets} or {env.root}, got {name!r}; {hint}"
        )
