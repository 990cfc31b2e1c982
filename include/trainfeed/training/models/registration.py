"""From a finished job to a version of its model: the gate, and the publication by one rename."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from trainfeed.core import canonical_json, faults
from trainfeed.errors import ChecksumError, ConfigError, ConflictError
from trainfeed.files import make_folders, open_plain, os_errors
from trainfeed.files.stores import posix
from trainfeed.specification import MetricGate, ModelSpec, nearest
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

# --- The gate: metrics of a candidate beside limits and the promoted model


@dataclass(frozen=True)
class Compared:
    """The promoted model, and its metrics on the same data as the candidate's.

    Attributes:
        version: Version of the promoted model, such as ``v0002``; None when there is none.
        metrics: Name to number; None when nothing can be compared.
        note: Origin of the metrics, or the reason why nothing can be compared.
    """

    version: str | None
    metrics: Mapping[str, float] | None
    note: str


@dataclass(frozen=True)
class MetricResult:
    """The verdict on one metric.

    Attributes:
        metric: Name of the metric.
        value: Value of the candidate; None when the training returned no such metric.
        min: Smallest allowed value, if any.
        max: Largest allowed value, if any.
        promoted: Value of the promoted model; None when it is not compared.
        max_worse: Largest allowed difference by which ``value`` may be worse than ``promoted``, if
            any.
        why: Reason why the metric fails; empty when it passes.
    """

    metric: str
    value: float | None
    min: float | None
    max: float | None
    promoted: float | None
    max_worse: float | None
    why: str

    @property
    def passed(self) -> bool:
        """Whether the metric passes."""
        return not self.why


@dataclass(frozen=True)
class GateReport:
    """The verdict of the gate on a candidate.

    Attributes:
        results: One verdict for each metric of the specification, in its order.
        compared: The promoted model that the candidate was compared with.
    """

    results: tuple[MetricResult, ...]
    compared: Compared

    @property
    def passed(self) -> bool:
        """Whether all metrics pass."""
        return all(result.passed for result in self.results)

    def reasons(self) -> list[str]:
        """Return one sentence for each metric that fails."""
        return [result.why for result in self.results if not result.passed]

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values, for tasks and for the job's folder."""
        return {
            "passed": self.passed,
            "metrics": [{**asdict(each), "passed": each.passed} for each in self.results],
            "promoted": self.compared.version,
            "compared": self.compared.metrics is not None,
            "note": self.compared.note,
        }


def judge(spec: ModelSpec, metrics: Mapping[str, float], compared: Compared) -> GateReport:
    """Compare the metrics of a candidate with the gate of its specification.

    Args:
        spec: The model, with the gate of each metric.
        metrics: Metrics of the candidate, name to finite number.
        compared: The promoted model. Without its metrics only ``min`` and ``max`` decide, and the
            note of the report says so.
    """
    promoted = compared.metrics or {}
    results = tuple(
        _result(name, gate, metrics, promoted.get(name)) for name, gate in spec.metrics.items()
    )
    return GateReport(results, compared)


def _result(
    name: str, gate: MetricGate, metrics: Mapping[str, float], promoted: float | None
) -> MetricResult:
    value = metrics.get(name)
    why = _missing(name, metrics) if value is None else _wrong(name, gate, value, promoted)
    return MetricResult(name, value, gate.min, gate.max, promoted, gate.max_worse, why)


def _missing(name: str, metrics: Mapping[str, float]) -> str:
    like = nearest(name, metrics)
    hint = f"; {like}" if like else ""
    return f"there is no metric {name!r}, only {', '.join(sorted(metrics)) or 'none'}{hint}"


def _wrong(name: str, gate: MetricGate, value: float, promoted: float | None) -> str:
    if gate.min is not None and value < gate.min:
        return f"{name} is {value:g}, below min {gate.min:g}"
    if gate.max is not None and value > gate.max:
        return f"{name} is {value:g}, above max {gate.max:g}"
    if gate.max_worse is None or promoted is None:
        return ""
    worse = promoted - value if gate.better == "higher" else value - promoted
    if worse > gate.max_worse:
        return (
            f"{name} is {value:g}, worse by {worse:g} than the promoted model's {promoted:g};"
            f" max_worse is {gate.max_worse:g}"
        )
    return ""


# --- The publication of the output as a version

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
            " file; nothing was promoted; let the training write its model to job.output"
        )
    for name in candidate.files:
        try:
            check_file_name(name)
        except ValueError as error:
            raise ConfigError(
                f"{candidate.output}: {error}; nothing was promoted; rename the file in the"
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
            f"{target} exists but was not made by a promotion that holds the lock; nothing was"
            " changed; look into it, move it away, and promote again"
        )
    faults.point("model.after_rename")
    model = Model.open(folder, number)
    logger.info("%s is made of job %s", model.name, candidate.job.name)
    return model


def _copy(candidate: Candidate, staged: Path, name: str) -> ModelFile:
    source = candidate.output / name
    digest = hashlib.sha256()
    with open_plain(source, follow=False) as read, StagedFile(staged, name, mode=_MODE) as file:
        while block := read.read(_BLOCK_BYTES):
            digest.update(block)
            file.write(block)
    expected = candidate.files[name]
    if (file.num_bytes, digest.hexdigest()) != expected:
        raise ChecksumError(
            f"expected {expected[0]} bytes with SHA-256 {expected[1]}, as the job's result says,"
            f" got {file.num_bytes} with {digest.hexdigest()}; nothing was promoted; train again",
            path=str(source),
        )
    return ModelFile(name=name, bytes=file.num_bytes, sha256=digest.hexdigest())


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
