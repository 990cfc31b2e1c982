"""The paths of models below the publication root.

::

    <root>/models/
      <name>/v0001/                  one immutable version: its files and their manifest
      <name>/aliases/<alias>/0001.json   one change of an alias; the last one is current
      <name>/removed/v0001.json      a version that retention removed: what it was, who, when, why
      <name>/.lock                   held while a version is published
      <name>/.aliases.lock           held while an alias changes, or a version is removed
      _start/<digest>/               a downloaded model from which trainings start
      _staging/<identity>-v0001/     becomes a version by one rename
      _staging/tmp/                  unfinished files
      _trash/                        versions that are being deleted
      .retention.lock                held while retention removes versions
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trainfeed.dataset.layout import MODELS, is_name
from trainfeed.errors import ConfigError, NotFoundError
from trainfeed.paths import listed, listed_folder
from trainfeed.specification import check_name, did_you_mean
from trainfeed.version_names import check_version_name

__all__ = ["ModelFolder", "ModelsFolder", "is_version", "model_version", "parse_version"]

_VERSION: Final = re.compile(r"v([0-9]{4,})")
_RECORD: Final = re.compile(r"v([0-9]{4,})\.json")
_ALIASES: Final = "aliases"
_REMOVED: Final = "removed"


def model_version(number: int) -> str:
    """Return the folder name of a version of a model, ``v0001`` for 1."""
    return f"v{number:04d}"


def is_version(name: str) -> bool:
    """Return whether a text has the form of a version, ``v0001``."""
    return _VERSION.fullmatch(name) is not None


def parse_version(name: str) -> int:
    """Return the number of a version from its folder name, 1 for ``v0001``.

    Raises:
        ConfigError: ``name`` has another form.
    """
    match = _VERSION.fullmatch(name)
    if match is None:
        raise ConfigError(f"expected the version of a model like v0001, got {name[:80]!r}")
    return int(match[1])


def _numbers(form: re.Pattern[str], folder: Path) -> Iterator[int]:
    matches = (form.fullmatch(path.name) for path in listed(folder))
    return (int(match[1]) for match in matches if match)


@dataclass(frozen=True)
class ModelFolder:
    """The paths of one model; no method creates anything.

    Attributes:
        models: The folder of all models.
        name: Name of the model.
    """

    models: Path
    name: str

    @property
    def path(self) -> Path:
        """The model's own folder."""
        return self.models / check_name(self.name, what="model")

    @property
    def staging(self) -> Path:
        """The folder of unpublished versions of all models."""
        return self.models / "_staging"

    def staged(self, identity: str, number: int) -> Path:
        """The folder of one version before it is published; ``identity`` is its job's."""
        return self.staging / f"{identity[:16]}-{model_version(number)}"

    def version(self, number: int) -> Path:
        """The folder of one version."""
        return self.path / model_version(number)

    def alias(self, alias: str) -> Path:
        """The folder with the changes of an alias.

        Raises:
            ConfigError: No new alias may have that name, and none of an earlier release has it.
        """
        folder = self.path / _ALIASES
        if is_name(alias) and (folder / alias).is_dir():
            return folder / alias
        return folder / check_version_name(alias, what="alias")

    def removal(self, number: int) -> Path:
        """The record of a version that retention removed."""
        return self.path / _REMOVED / f"{model_version(number)}.json"

    def versions(self) -> list[int]:
        """Numbers of the versions, ascending, without those whose removal has begun.

        Raises:
            StorageError: The publication root refused or failed.
        """
        # First the folders: a removal writes its record, and then takes the folder away.
        folders = self._folders()
        return sorted(folders - set(self.removed_versions()))

    def removed_versions(self) -> list[int]:
        """Numbers of the versions that retention removed, or has begun to remove, ascending.

        Raises:
            StorageError: The publication root refused or failed.
        """
        return sorted(_numbers(_RECORD, self.models / self.name / _REMOVED))

    def half_removed_versions(self) -> list[int]:
        """Numbers of the versions with a record whose folder is there, ascending.

        Raises:
            StorageError: The publication root refused or failed.
        """
        return sorted(set(self.removed_versions()) & self._folders())

    def lost_versions(self) -> list[int]:
        """Numbers below the last one that have neither a version nor a record of its removal.

        Numbers are given one after the other, so that somebody has taken these away by hand.

        Raises:
            StorageError: The publication root refused or failed.
        """
        known = self._folders().union(self.removed_versions())
        return sorted(set(range(1, max(known, default=0))) - known)

    def next_number(self) -> int:
        """The number of the next version: no number is used twice.

        Raises:
            StorageError: The publication root refused or failed.
        """
        return max(self._folders().union(self.removed_versions()), default=0) + 1

    def _folders(self) -> set[int]:
        return set(_numbers(_VERSION, self.models / self.name))

    def aliases(self) -> list[str]:
        """Names of the aliases, sorted.

        Raises:
            FormatError: Something else than a folder is in the place of the aliases.
            StorageError: The publication root refused or failed.
        """
        return sorted(path.name for path in listed_folder(self.path / _ALIASES))


@dataclass(frozen=True)
class ModelsFolder:
    """The models below a publication root.

    Attributes:
        root: The publication root.
    """

    root: Path

    @property
    def path(self) -> Path:
        """The folder of all models."""
        return self.root / MODELS

    @property
    def start_models(self) -> Path:
        """The folder of the downloaded models from which trainings start."""
        return self.path / "_start"

    def start_model(self, digest: str) -> Path:
        """The folder of a downloaded model; ``digest`` is the SHA-256 of its manifest."""
        return self.start_models / digest

    def model(self, name: str) -> ModelFolder:
        """The paths of one model, which need not exist."""
        return ModelFolder(self.path, name)

    def known(self, name: str) -> ModelFolder:
        """The paths of a model that has at least one version.

        Raises:
            NotFoundError: There is no such model; the message names the nearest one.
        """
        if name not in (names := self.names()):
            hint = did_you_mean(name, names) if names else "no training has made one yet"
            raise NotFoundError(f"expected a model of {self.path}, got {name[:80]!r}; {hint}")
        return self.model(name)

    def names(self) -> list[str]:
        """Names of the models that have a version, sorted.

        Raises:
            StorageError: The publication root refused or failed.
        """
        # A data set of an earlier trainfeed may be called "models"; then its folders ("versions",
        # "plans", …) lie here. They contain no folder like v0001.
        names = (path.name for path in listed(self.path) if not path.name.startswith(("_", ".")))
        return [name for name in names if ModelFolder(self.path, name).versions()]
