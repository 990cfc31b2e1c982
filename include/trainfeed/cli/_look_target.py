"""Targets of commands: ``NAME``, ``NAME/RANGE`` or ``NAME/INTERVAL/gNNNN``.

RANGE has the forms of ``trainfeed.intervals.parse_range``, so ``NAME/FIRST/LAST`` is allowed, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from trainfeed.cli._known_datasets import known_folder
from trainfeed.dataset import Coverage, DatasetFolder, Version, cover
from trainfeed.dataset.layout import is_generation, is_name, parse_generation
from trainfeed.errors import ConfigError
from trainfeed.intervals import parse_range

__all__ = ["LookTarget", "parse_target", "version_of"]


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
