"""The versions that a training read, found by the name of its job and opened as they were."""

from __future__ import annotations

from pathlib import Path

from trainfeed.errors import (
    ChecksumError,
    ConfigError,
    ConflictError,
    FormatError,
    NotFoundError,
)
from trainfeed.files import is_there, listed
from trainfeed.versions.coverage import Coverage, skip_of
from trainfeed.versions.layout import (
    DatasetFolder,
    check_name,
    generation_name,
    is_name,
    parse_generation,
)
from trainfeed.versions.root import data_sets_of
from trainfeed.versions.skip import accepted_holes
from trainfeed.versions.training_marks import JOB_FILE, LaunchedJob, launched_job
from trainfeed.versions.version import Version
from trainfeed.versions.withdraw import look_for_withdrawal


def data_set_of_job(root: Path, job: str) -> DatasetFolder:
    """Return the data set that a job trained on.

    Raises:
        NotFoundError: There is no job of that name.
        StorageError: The publication root refused or failed.
    """
    for name in data_sets_of(root) if is_name(job) else ():
        folder = DatasetFolder(root, name)
        if _home(folder, job) is not None:
            return folder
    raise NotFoundError(
        f"expected the name of a job in {root}, got {job[:80]!r}; nothing was read; 'trainfeed jobs"
        " ls' lists them"
    )


def cover_job(folder: DatasetFolder, job: str, *, withdrawn: str = "fail") -> Coverage:
    """Open the versions that a job read, and no others.

    Args:
        folder: The data set of the job.
        job: Name of the job.
        withdrawn: ``fail`` refuses a version that is withdrawn now; ``warn`` opens it.

    Returns:
        The versions in the order of the job. An interval of its window that was left out is in
        ``skipped`` as long as the decision is there, otherwise in ``missing``.

    Raises:
        ConflictError: A version was removed.
        WithdrawnError: A version is withdrawn, and ``withdrawn`` is ``fail``.
        ChecksumError: Another version is in the place of one that the job read.
        NotFoundError: The data set has no job of that name.
        FormatError: The job file or a manifest is damaged.
        StorageError: The publication root refused or failed.
    """
    found = _read(folder, job)
    versions = tuple(_opened(folder, job, *each, withdrawn) for each in _named(found, job))
    skips = {name: skip_of(folder, check_name(name)) for name in found.skipped}
    first, last = (found.versions[place]["interval"] for place in (0, -1))
    return Coverage(
        folder,
        first if first == last else f"{first}/{last}",
        versions,
        tuple(name for name, skip in skips.items() if skip is None),
        tuple(skip for skip in skips.values() if skip is not None),
        accepted=tuple(each for each in accepted_holes(folder) if each.range in found.accepted),
    )


def _read(folder: DatasetFolder, job: str) -> LaunchedJob:
    home = _home(folder, job) if is_name(job) else None
    found = None if home is None else launched_job(home)
    if found is None or not found.versions:
        raise NotFoundError(
            f"expected the name of a job of data set {folder.name!r}, got {job[:80]!r}; nothing was"
            f" read; 'trainfeed jobs ls {folder.name}' lists them"
        )
    if found.dataset != folder.name:
        raise FormatError(
            f"expected a job of data set {folder.name!r}, got {found.dataset!r}; nothing was read;"
            " bring the file back from a backup",
            path=str(home),
        )
    return found


def _named(found: LaunchedJob, job: str) -> list[tuple[str, int, str]]:
    """Return interval, generation and digest of the manifest of each version."""
    try:
        return [
            (
                check_name(each["interval"]),
                parse_generation(each["generation"]),
                str(each["manifest_sha256"]),
            )
            for each in found.versions
        ]
    except (ConfigError, KeyError, TypeError, ValueError) as error:
        raise FormatError(f"the file of job {job} names no versions: {error}") from error


def _home(folder: DatasetFolder, job: str) -> Path | None:
    """Return the folder of a job; they lie below the last interval of their window."""
    marks = folder.training_marks
    intervals = listed(marks.parent) if marks.parent.is_dir() else ()
    homes = (interval / job for interval in intervals if interval != marks)
    return next((home for home in homes if is_there(home / JOB_FILE)), None)


def _opened(
    folder: DatasetFolder,
    job: str,
    interval: str,
    generation: int,
    manifest_sha256: str,
    withdrawn: str,
) -> Version:
    look_for_withdrawal(folder, interval, generation, withdrawn=withdrawn)
    if folder.is_removed(interval, generation):
        raise ConflictError(
            f"job {job} read {folder.name}/{interval}/{generation_name(generation)}, which was"
            " removed by retention; nothing was read; keep the versions of a training with a tag:"
            f" trainfeed tag {folder.name} --job JOB TAG --why WHY"
        )
    version = Version.resolve(folder, interval, generation)
    if version.manifest_sha256 != manifest_sha256:
        raise ChecksumError(
            f"expected the manifest that job {job} read, with SHA-256 {manifest_sha256}, got"
            f" {version.manifest_sha256}; nothing was read; bring the version back from a backup",
            path=str(version.path),
        )
    return version
