"""The upload of a version of a model to ``<path>/<name>/<version>`` of its store."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from trainfeed.config import Environment
from trainfeed.dataset import require_writable_root
from trainfeed.errors import ConfigError, NotFoundError, TrainFeedError
from trainfeed.models import (
    ModelFolder,
    ModelsFolder,
    hold_model,
    model_version,
    parse_version,
    spec_of_model,
)
from trainfeed.specification import DatasetSpec, ModelSpec, StoreFolderSpec
from trainfeed.storage import Location
from trainfeed.storage.folder_manifest import Patience
from trainfeed.storage.folder_transfer import require_writable, upload
from trainfeed.training.transfers._store_place import store_place

__all__ = ["missing_upload", "require_upload", "upload_model", "upload_version"]

logger = logging.getLogger(__name__)


def require_upload(spec: DatasetSpec, env: Environment) -> dict[str, Any]:
    """Prove before a training that its model can be uploaded: the folder is there and writable.

    A temporary folder is made in it and deleted; what a kill leaves, the next proof deletes.

    Returns:
        ``upload``: the URI of the folder.

    Raises:
        ConfigError: The data set has no ``train.model.upload``, or its connection is not known.
        NotFoundError: The folder is not there.
        AccessDeniedError: The account may not write there.
        StorageError: The store refused or failed.
    """
    model, to = _wished(spec)
    place = store_place(env, to)
    _require_folder(place)
    require_writable(place / model.name)
    return {"upload": place.uri}


def upload_model(
    spec: DatasetSpec, env: Environment, version: str, *, patience: Patience | None = None
) -> dict[str, Any]:
    """Upload a version of the data set's model to the folder of ``train.model.upload``.

    Args:
        spec: The data set.
        env: The environment, with the store's connection.
        version: Name of the version, such as ``v0003``.
        patience: How often calls to the store are repeated.

    Returns:
        ``model``, ``version``, and the fields of the transfer's report.

    Raises:
        ConfigError: The data set has no ``train.model.upload``, or its connection is not known.
        NotFoundError: There is no such version, or the folder on the store is not there.
        ConflictError: The store has another content under the version's name.
        ChecksumError: A file of the version, or of an earlier upload, is damaged.
        CommitUnknownError: The store did not say whether the folder got its name.
        StorageError: The store refused or failed; nothing has the name.
    """
    model, to = _wished(spec)
    require_writable_root(env)
    folder = ModelsFolder(Path(env.root)).model(model.name)
    return upload_version(folder, parse_version(version), store_place(env, to), patience=patience)


def upload_version(
    folder: ModelFolder, number: int, to: Location, *, patience: Patience | None = None
) -> dict[str, Any]:
    """Upload a version of a model to ``<to>/<name>/<version>``; see ``upload_model``.

    Args:
        folder: The model.
        number: Number of the version, whose files are verified first.
        to: Folder of models on the store, which must exist.
        patience: How often calls to the store are repeated.
    """
    patience = patience or Patience()
    with hold_model(folder, number) as model:
        model.verify()
        patience.call(lambda: _require_folder(to))
        above = to / folder.name
        patience.call(above.make_dir)
        report = upload(model.path, above / model_version(number), patience=patience)
    return {"model": folder.name, "version": model_version(number), **report.to_json()}


def missing_upload(folder: ModelFolder, datasets: Path, version: str) -> dict[str, str]:
    """Return what a person has to do after a change of ``prod`` by hand, which uploads nothing.

    Args:
        folder: The model.
        datasets: Folder of the data sets.
        version: Name of the version that ``prod`` points to.

    Returns:
        ``{"upload": …}`` with the command to run; empty if the data set has no
        ``train.model.upload``, is not here, or cannot be read, which is a warning in the log.
    """
    try:
        spec = spec_of_model(folder, datasets)
    except TrainFeedError as error:
        logger.warning("the store of model %s is not known: %s", folder.name, error)
        return {}
    model = spec.train.model if spec is not None and spec.train is not None else None
    if model is None or model.upload is None:
        return {}
    to = f"{model.upload.path} of connection {model.upload.connection}"
    command = f"trainfeed models upload {folder.name}/{version} TO"
    return {"upload": f"not uploaded by this step; for {to} (train.model.upload) run: {command}"}


def _require_folder(place: Location) -> None:
    try:
        is_dir = place.stat().is_dir
    except NotFoundError as error:
        raise NotFoundError(
            f"{place.uri}: expected a folder for models, found none; nothing was copied; make the"
            " folder, or correct the path"
        ) from error
    if not is_dir:
        raise NotFoundError(f"{place.uri}: expected a folder, got a file; nothing was copied")


def _wished(spec: DatasetSpec) -> tuple[ModelSpec, StoreFolderSpec]:
    model = spec.train.model if spec.train is not None else None
    if model is None or model.upload is None:
        raise ConfigError(
            f"the model of data set {spec.name!r} is not uploaded; add train.model.upload to"
            " dataset.yaml"
        )
    return model, model.upload
