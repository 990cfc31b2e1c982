"""Models to and from stores around a training, outside its ranks; each step can be repeated."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Final

from trainfeed.core.config import Environment
from trainfeed.core.patience import Patience
from trainfeed.errors import (
    ConfigError,
    FormatError,
    JobRejectedError,
    NotFoundError,
    StorageError,
    TrainFeedError,
)
from trainfeed.files import walk
from trainfeed.files.stores import Location, posix
from trainfeed.files.stores.folder_manifest import TRANSFER_MANIFEST, read_manifest
from trainfeed.files.stores.folder_transfer import (
    download_below,
    require_writable,
    upload,
    wait_for,
)
from trainfeed.specification import DatasetSpec, ModelSpec, StoreFolderSpec
from trainfeed.training.models import (
    ModelFolder,
    ModelsFolder,
    hold_model,
    model_version,
    parse_version,
    spec_of_model,
)
from trainfeed.versions import require_writable_root

# --- Folders of ``dataset.yaml`` on the stores of an environment


def store_place(env: Environment, folder: StoreFolderSpec) -> Location:
    """Return the location of a folder on its store.

    Raises:
        ConfigError: The environment has no such connection, or its place is not valid.
    """
    start = env.stores.get(folder.connection)
    if start is None:
        known = ", ".join(sorted(env.stores)) or "none"
        raise ConfigError(
            f"expected a connection {folder.connection!r} for {folder.path}, the ones for models"
            f" are: {known}; nothing was copied; define it, or correct dataset.yaml"
        )
    return Location.parse(start) / folder.path.removeprefix("/")


# --- The upload of a version of a model to ``<path>/<name>/<version>`` of its store

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


# --- The model that a training starts from: downloaded once per content, before any rank runs

_FILE_MODE: Final = 0o444
_FOLDER_MODE: Final = 0o755


def has_start_model(spec: DatasetSpec) -> bool:
    """Return whether the training of a data set starts from a downloaded model."""
    return _wished_start(spec) is not None


def download_start_model(
    spec: DatasetSpec, env: Environment, *, patience: Patience | None = None
) -> dict[str, Any]:
    """Download the model of ``train.model.download`` into the publication root.

    Args:
        spec: The data set.
        env: The environment, with the store's connection.
        patience: How often calls to the store are repeated.

    Returns:
        ``start_model`` (digest of the model's manifest), ``path``, and the fields of the transfer's
        report.

    Raises:
        ConfigError: The data set has no ``train.model.download``, or its connection is not known.
        NotFoundError: The folder is not there.
        FormatError: The folder is partial or damaged.
        FileReplacedError: The folder was replaced twice during the download.
        StorageError: The store or the publication root refused or failed; nothing is there.
    """
    source = store_place(env, _require_wished(spec))
    require_writable_root(env)
    models = ModelsFolder(Path(env.root))
    posix.make_public_dir(models.start_models)
    report = download_below(source, models.start_models, patience=patience)
    kept = models.start_model(report.manifest_sha256)
    _make_public(kept)
    return {"start_model": report.manifest_sha256, "path": str(kept), **report.to_json()}


def start_model_digest(spec: DatasetSpec, env: Environment) -> str:
    """Return the digest that ``download_start_model`` would return, for a dry run.

    The manifest of the folder on the store is read, and no other file. A folder without manifest
    has to be downloaded, because its digest depends on its files; a training then adopts it.

    Raises:
        TrainFeedError: The errors of ``download_start_model``.
    """
    place = store_place(env, _require_wished(spec))
    manifest = read_manifest(place, Patience())
    if manifest is not None:
        return manifest.sha256
    logger.warning(
        "%s has no %s, so the model is downloaded to name the job", place.uri, TRANSFER_MANIFEST
    )
    return str(download_start_model(spec, env)["start_model"])


def open_start_model(root: Path | None, digest: str) -> Path:
    """Return the folder of a downloaded model, in a rank or before a launch.

    Args:
        root: The publication root as this process sees it; None if it is not known.
        digest: SHA-256 of the model's manifest.

    Raises:
        JobRejectedError: The folder is gone, differs from its manifest, or the root is not known.
    """
    if root is None:
        raise JobRejectedError(
            "expected TRAINFEED_JOB_ROOT to name the publication root, it is not set; nothing was"
            " read; start the rank by a launcher of trainfeed, or set the variable"
        )
    folder = ModelsFolder(root).start_model(digest)
    try:
        wait_for(folder, timeout_s=0, manifest_sha256=digest)
    except (FormatError, StorageError) as error:
        raise JobRejectedError(
            f"expected the downloaded model {digest[:12]} in {folder}: {error}; nothing was read;"
            " remove the folder if it is there, and clear the task download_model"
        ) from error
    return folder


def _require_wished(spec: DatasetSpec) -> StoreFolderSpec:
    folder = _wished_start(spec)
    if folder is None:
        raise ConfigError(
            f"data set {spec.name!r} starts from no model; add train.model.download to dataset.yaml"
        )
    return folder


def _wished_start(spec: DatasetSpec) -> StoreFolderSpec | None:
    model = spec.train.model if spec.train is not None else None
    return model.download if model is not None else None


def _make_public(folder: Path) -> None:
    """Let every account read the model: ranks may run under another one than the download."""
    with posix.map_errors(folder):
        for path in [*walk(folder), folder]:
            path.chmod(_FOLDER_MODE if path.is_dir() else _FILE_MODE)
