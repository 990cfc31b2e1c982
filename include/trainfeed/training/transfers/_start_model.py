"""The model that a training starts from: downloaded once per content, before any rank runs.

The folder is named by the SHA-256 of its manifest, which enters the identity of the job. So a
repeated download adopts the folder, and a model that was replaced on its store is another folder
and another job.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Final

from trainfeed.config import Environment
from trainfeed.dataset import require_writable_root
from trainfeed.errors import ConfigError, FormatError, JobRejectedError, StorageError
from trainfeed.models import ModelsFolder
from trainfeed.paths import walk
from trainfeed.specification import DatasetSpec, StoreFolderSpec
from trainfeed.storage import posix
from trainfeed.storage.folder_manifest import TRANSFER_MANIFEST, Patience, read_manifest
from trainfeed.storage.folder_transfer import download_below, wait_for
from trainfeed.training.transfers._store_place import store_place

__all__ = [
    "download_start_model",
    "has_start_model",
    "open_start_model",
    "start_model_digest",
]

logger = logging.getLogger(__name__)

_FILE_MODE: Final = 0o444
_FOLDER_MODE: Final = 0o755


def has_start_model(spec: DatasetSpec) -> bool:
    """Return whether the training of a data set starts from a downloaded model."""
    return _wished(spec) is not None


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
    folder = _wished(spec)
    if folder is None:
        raise ConfigError(
            f"data set {spec.name!r} starts from no model; add train.model.download to dataset.yaml"
        )
    return folder


def _wished(spec: DatasetSpec) -> StoreFolderSpec | None:
    model = spec.train.model if spec.train is not None else None
    return model.download if model is not None else None


def _make_public(folder: Path) -> None:
    """Let every account read the model: ranks may run under another one than the download."""
    with posix.map_errors(folder):
        for path in [*walk(folder), folder]:
            path.chmod(_FOLDER_MODE if path.is_dir() else _FILE_MODE)
