"""Versions of models as commands name them: ``NAME/vNNNN``, ``NAME@prod``, ``NAME``."""

from __future__ import annotations

from dataclasses import dataclass

from trainfeed.errors import ConfigError, NotFoundError
from trainfeed.training.models.aliases import PROD, current
from trainfeed.training.models.model import (
    ModelFolder,
    ModelsFolder,
    is_version,
    model_version,
    parse_version,
)


@dataclass(frozen=True)
class ChosenModel:
    """A version of a model, named by its number or by an alias.

    Attributes:
        folder: The model.
        alias: The alias that was named; None when a version was named.
        number: Number of the version that was named; None when an alias was named.
    """

    folder: ModelFolder
    alias: str | None
    number: int | None

    @classmethod
    def parse(cls, models: ModelsFolder, text: str) -> ChosenModel:
        """Read ``NAME/vNNNN``, ``NAME@vNNNN``, ``NAME@ALIAS`` or ``NAME``, which is ``NAME@prod``.

        Raises:
            ConfigError: ``text`` has another form, or the name is none of a model.
            NotFoundError: There is no such model; the message names the nearest one.
        """
        name, slash, version = text.partition("/")
        name, at, alias = name.partition("@")
        if slash and at:
            raise ConfigError(f"expected NAME/vNNNN or NAME@ALIAS, got {text[:80]!r}")
        named = version if slash else alias if is_version(alias) else None
        folder = _require_model(models, name, is_alias=bool(at) and named is None)
        if named is not None:
            return cls(folder, None, parse_version(named))
        return cls(folder, alias or PROD, None)

    def resolve(self) -> int:
        """Return the number of the version; of an alias, the one that it points to now.

        Raises:
            ConfigError: The alias has a name that no alias may have.
            NotFoundError: The alias points to no version, or to one that is gone.
            FormatError: The history of the alias, or the manifest of the version, is damaged.
            StorageError: The publication root refused or failed.
        """
        if self.number is not None:
            return self.number
        model = current(self.folder, self.alias or PROD)
        if model is None:
            known = ", ".join(model_version(number) for number in self.folder.versions()[-5:])
            raise NotFoundError(
                f"expected a version of model {self.folder.name} that {self.alias} points to, there"
                f" is none; name one: {known}; aliases of models were looked up, not tags of data"
                " (trainfeed tags NAME)"
            )
        return model.manifest.version


def _require_model(models: ModelsFolder, name: str, *, is_alias: bool) -> ModelFolder:
    try:
        return models.known(name)
    except NotFoundError as error:
        if not is_alias:
            raise
        raise NotFoundError(
            f"{error}; aliases of models were looked up, not tags of data (trainfeed tags {name})"
        ) from error
