"""Where models lie below the publication root.

::

    <root>/models/
      <name>/v0001/                  one immutable model: its files and their manifest
      <name>/aliases/<alias>/0001.json   each change of an alias; the last one counts
      <name>/.lock                   held while a model is promoted
      _staging/<identity>-v0001/     becomes a model by one rename
      _staging/tmp/                  unfinished files of single tries
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trainfeed.dataset.layout import MODELS
from trainfeed.errors import ConfigError, NotFoundError
from trainfeed.paths import listed
from trainfeed.specification import check_name, did_you_mean

__all__ = ["ModelFolder", "ModelsFolder", "model_version", "parse_version"]

_VERSION: Final = re.compile(r"v([0-9]{4,})")
_ALIASES: Final = "aliases"


def model_version(number: int) -> str:
    """Return the folder name of a model, ``v0001`` for 1."""
    return f"v{number:04d}"


def parse_version(name: str) -> int:
    """Return the number of a folder name, 1 for ``v0001``.

    Raises:
        ConfigError: ``name`` is no such name.
    """
    match = _VERSION.fullmatch(name)
    if match is None:
        raise ConfigError(f"expected the version of a model like v0001, got {name[:80]!r}")
    return int(match[1])


@dataclass(frozen=True)
class ModelFolder:
    """The paths of one model. Nothing is created by asking for a path.

    Attributes:
        models: The folder of all models.
        name: The model.
    """

    models: Path
    name: str

    @property
    def path(self) -> Path:
        """The model's own folder."""
        return self.models / check_name(self.name, what="model")

    @property
    def staging(self) -> Path:
        """Where models grow before they are published; one folder for all of them."""
        return self.models / "_staging"

    def staged(self, identity: str, number: int) -> Path:
        """Where a version grows."""
        return self.staging / f"{identity[:16]}-{model_version(number)}"

    def version(self, number: int) -> Path:
        """The folder of one version."""
        return self.path / model_version(number)

    def alias(self, alias: str) -> Path:
        """The folder of the changes of an alias."""
        return self.path / _ALIASES / check_name(alias, what="alias")

    def versions(self) -> list[int]:
        """Numbers of the versions, ascending.

        Raises:
            StorageError: The publication root refused or failed.
        """
        matches = (_VERSION.fullmatch(path.name) for path in listed(self.models / self.name))
        return sorted(int(match[1]) for match in matches if match)

    def aliases(self) -> list[str]:
        """Names of the aliases, sorted."""
        return sorted(path.name for path in listed(self.path / _ALIASES))


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

    def model(self, name: str) -> ModelFolder:
        """The paths of one model, whether it is there or not."""
        return ModelFolder(self.path, name)

    def known(self, name: str) -> ModelFolder:
        """The paths of a model that has a version.

        Raises:
            NotFoundError: There is none; names the nearest.
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
        # A data set of an earlier version may have this folder: it has no folder like v0001.
        names = (path.name for path in listed(self.path) if not path.name.startswith(("_", ".")))
        return [name for name in names if ModelFolder(self.path, name).versions()]
