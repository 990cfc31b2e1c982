"""From the output of a finished job to a version of its model, published by one rename."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trainfeed.core import canonical_json, faults
from trainfeed.errors import ChecksumError, ConfigError, ConflictError
from trainfeed.files import make_folders, open_plain, os_errors
from trainfeed.files.stores import posix
from trainfeed.training.models.model import (
    DAMAGED,
    FORMAT,
    Model,
    ModelData,
    ModelFile,
    ModelFolder,
    ModelJob,
    ModelManifest,
    check_file_name,
    model_version,
    refuse_removed,
)
from trainfeed.versions.publication import (
    StagedFile,
    commit_folder,
    confirm_folder,
    seal_folder,
    write_manifest_file,
)

logger = logging.getLogger(__name__)

_BLOCK_BYTES: Final = 4 << 20
_MODE: Final = 0o444
_LOCK_TIMEOUT_S: Final = 3600.0


@dataclass(frozen=True)
class Candidate:
    """The output of a finished job.

    Attributes:
        job: The job.
        data: The versions that the job read, in order of intervals.
        metrics: Name to number.
        output: The job's output folder.
        files: The files that the job's result lists: relative POSIX path → (bytes, SHA-256 in hex).
    """

    job: ModelJob
    data: Sequence[ModelData]
    metrics: Mapping[str, float]
    output: Path
    files: Mapping[str, tuple[int, str]]


def data_digest(data: Sequence[ModelData]) -> str:
    """Return one digest of a job's input contents: at equal digests, metrics can be compared."""
    return canonical_json.sha256_of([each.content_digest for each in data])


def find(folder: ModelFolder, identity: str) -> Model | None:
    """Return the version that a job has made, or None.

    A version whose manifest is damaged is passed over with a warning: nothing says which job has
    made it. Its job may become a second version, and no other job waits for its repair.

    Args:
        folder: The model.
        identity: Identity of the job.

    Raises:
        StorageError: The file system refused or failed.
    """
    for number in reversed(folder.versions()):
        try:
            model = Model.open(folder, number)
        except DAMAGED as error:
            logger.warning(
                "%s/%s is passed over, its manifest is damaged: %s; restore its folder from a"
                " backup, or move it out of %s",
                folder.name, model_version(number), error, folder.path,
            )  # fmt: skip
            continue
        if model.manifest.job.identity == identity:
            return model
    return None


def register(folder: ModelFolder, candidate: Candidate) -> tuple[Model, bool]:
    """Publish the files of a job as the next version of a model, unless the job has one.

    Args:
        folder: The model.
        candidate: The output of the job.

    Returns:
        The version, and whether this call made it.

    Raises:
        ConfigError: The job left no file, or a file whose name is not allowed in a model.
        ChecksumError: A file differs from the job's result in size or digest.
        NotFoundError: A file is gone.
        ConflictError: The job made a version that retention removed; or the folder of the version
            exists, but this lock's holder did not make it.
        CommitUnknownError: The file system did not say whether the commit took place.
        StorageError: The file system refused or failed.
    """
    _check(candidate)
    posix.make_public_dir(folder.path)
    with posix.file_lock(folder.path / ".lock", timeout_s=_LOCK_TIMEOUT_S):
        known = find(folder, candidate.job.identity)
        if known is None:
            refuse_removed(folder, candidate.job.identity)
        model = known or _publish(folder, candidate)
        # Also for a known version: an earlier call may have been killed after its rename.
        confirm_folder(model.path, folder.staging)
    return model, known is None


def _check(candidate: Candidate) -> None:
    if not candidate.files:
        raise ConfigError(
            f"expected job {candidate.job.name} to leave a model in {candidate.output}, found no"
            " file; no version was made; let the training write its model to job.output"
        )
    for name in candidate.files:
        try:
            check_file_name(name)
        except ValueError as error:
            raise ConfigError(
                f"{candidate.output}: {error}; no version was made; rename the file in the"
                " training, and train again"
            ) from error


def _publish(folder: ModelFolder, candidate: Candidate) -> Model:
    number = folder.next_number()
    staged = folder.staged(candidate.job.identity, number)
    posix.remove_tree(staged)
    with os_errors(staged):
        make_folders(staged)
    faults.point("model.after_stage")
    files = [_copy(candidate, staged, name) for name in sorted(candidate.files)]
    faults.point("model.after_files")
    manifest = _manifest(folder, number, candidate, files)
    # The manifest comes last: a staged folder with one is complete.
    write_manifest_file(staged, manifest.to_bytes())
    faults.point("model.after_manifest")
    seal_folder(staged)
    Model.read(staged, folder.name, number).verify()
    target = folder.version(number)
    faults.point("model.before_rename")
    if not commit_folder(staged, target):
        raise ConflictError(
            f"{target} exists but was not made by the holder of this lock; no version was made;"
            " look into it, move it away, and judge the job again"
        )
    faults.point("model.after_rename")
    model = Model.open(folder, number)
    logger.info("%s is made of job %s", model.name, candidate.job.name)
    return model


def _copy(candidate: Candidate, staged: Path, name: str) -> ModelFile:
    source = candidate.output / name
    with open_plain(source, follow=False) as read, StagedFile(staged, name, mode=_MODE) as file:
        shutil.copyfileobj(read, file, _BLOCK_BYTES)
    expected = candidate.files[name]
    if (file.num_bytes, file.sha256) != expected:
        raise ChecksumError(
            f"expected {expected[0]} bytes with SHA-256 {expected[1]}, as the job's result says,"
            f" got {file.num_bytes} with {file.sha256}; no version was made; train again",
            path=str(source),
        )
    return ModelFile(name=name, bytes=file.num_bytes, sha256=file.sha256)


def _manifest(
    folder: ModelFolder, number: int, candidate: Candidate, files: list[ModelFile]
) -> ModelManifest:
    return ModelManifest(
        format=FORMAT,
        model=folder.name,
        version=number,
        job=candidate.job,
        data=list(candidate.data),
        data_digest=data_digest(candidate.data),
        metrics={name: float(value) for name, value in sorted(candidate.metrics.items())},
        files=files,
    )
