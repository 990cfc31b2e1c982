"""From a finished job to a promoted model: the gate, the version, the alias; each step once."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from trainfeed.core import canonical_json, faults
from trainfeed.core.config import JOB_MODEL, Environment
from trainfeed.errors import ConfigError, FormatError, GateError, JobRejectedError, NotFoundError
from trainfeed.files import make_folders
from trainfeed.files.records import ONCE_UNSEALED, RecordFile
from trainfeed.files.stores import posix
from trainfeed.functions import digest_of_texts, training_texts
from trainfeed.specification import DatasetSpec, ModelSpec
from trainfeed.training.jobs import (
    JobRecord,
    JobRemoval,
    JobResult,
    JobRoots,
    JobSpec,
    JobVersion,
    LocalLauncher,
)
from trainfeed.training.models import (
    CANDIDATE,
    DAMAGED,
    PROD,
    Baseline,
    Candidate,
    GateReport,
    Model,
    ModelData,
    ModelFolder,
    ModelJob,
    ModelsFolder,
    current,
    current_version,
    data_digest,
    find,
    history,
    judge,
    model_version,
    parse_version,
    refuse_removed,
    register,
)
from trainfeed.training.models import promote as point_alias
from trainfeed.training.tracking import Tracker
from trainfeed.versions import DatasetFolder, Version, require_writable_root

# --- The candidate for a model from a finished job: its files, metrics, code and data


def candidate_of(root: Path, record: JobRecord) -> Candidate:
    """Return the candidate of a job, with the files that the job's result lists.

    Args:
        root: The publication root.
        record: The job's folder.

    Raises:
        JobRejectedError: The job has no result.
        ChecksumError: A file differs from the result in size or digest.
        NotFoundError: A file of the result is gone.
        StorageError: The file system refused or failed.
    """
    job, result = record.job(), record.result()
    if result is None:
        raise JobRejectedError(
            f"expected the result of job {job.name} in {record.home}, found none; nothing was"
            " promoted; train first"
        )
    removal = JobRemoval.read(record.home)
    if removal is not None:
        raise JobRejectedError(
            f"expected the output of job {job.name} in {record.output}, but {removal.told}; nothing"
            f" was promoted; remove {record.home}, and train again: trainfeed train {job.dataset}"
            f" --interval {job.interval}"
        )
    result.verify(record.home)
    return Candidate(
        job=_model_job(job),
        data=[_data(root, version) for version in job.versions],
        metrics={name: float(value) for name, value in result.metrics.items()},
        output=record.output,
        files={name: (file.size, file.sha256) for name, file in result.files.items()},
    )


def _model_job(job: JobSpec) -> ModelJob:
    return ModelJob(
        dataset=job.dataset,
        interval=job.interval,
        name=job.name,
        identity=job.identity,
        entry=job.entry,
        code=job.code,
        seed=job.seed,
        ranks=job.ranks,
    )


def _data(root: Path, version: JobVersion) -> ModelData:
    try:
        fingerprint = Version.open(root / version.path).manifest.fingerprint
    except NotFoundError:
        fingerprint = None
    return ModelData(
        interval=version.interval,
        generation=version.generation,
        content_digest=version.content_digest,
        manifest_sha256=version.manifest_sha256,
        fingerprint=fingerprint,
    )


# --- The metrics of a model on the data of a job: one rank that runs ``train.model.evaluate``

_FOLDER: Final = "evaluations"
_LOCK_TIMEOUT_S: Final = 24 * 3600.0


def evaluate_model(
    spec: DatasetSpec, root: Path, job: JobRecord, model: Path, entry: str
) -> dict[str, float]:
    """Return the metrics of a model on the versions that a job has read.

    Args:
        spec: The data set.
        root: The publication root.
        job: Folder of the job whose versions are read.
        model: Folder of the model's files, below the root.
        entry: ``module:name`` of the function.

    Raises:
        JobFailedError: The function raised; its log is named.
        JobKilledError: The process was killed, or met a passing fault.
        JobRejectedError: There is no such function, or it returned no metrics.
        StorageError: The file system refused or failed.
    """
    evaluation = _job(spec, root, job.job(), model, entry)
    record = JobRecord(job.home / _FOLDER / evaluation.identity[:16])
    with posix.map_errors(record.home):
        make_folders(record.home)
    with posix.file_lock(record.home / ".lock", timeout_s=_LOCK_TIMEOUT_S):
        result = record.result() or _run(spec, root, evaluation, record)
    return {name: float(value) for name, value in result.metrics.items()}


def _run(spec: DatasetSpec, root: Path, evaluation: JobSpec, record: JobRecord) -> JobResult:
    record.write(evaluation)
    LocalLauncher(JobRoots(root, spec.folder)).start(evaluation, record.home)
    result = record.result()
    assert result is not None  # noqa: S101 - the launcher has seen it
    return result


def _job(spec: DatasetSpec, root: Path, job: JobSpec, model: Path, entry: str) -> JobSpec:
    return JobSpec.named(
        dataset=job.dataset,
        interval=job.interval,
        folder=".",
        entry=entry,
        code=digest_of_texts(training_texts(spec.folder)),
        seed=job.seed,
        ranks=1,
        versions=job.versions,
        skipped=job.skipped,
        accepted=job.accepted,
        environment={**job.environment, JOB_MODEL: model.relative_to(root).as_posix()},
    )


# --- The verdict of the gate of ``train.model`` on a job, with a comparison to the promoted model

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Judgement:
    """A candidate that the gate is to judge.

    Attributes:
        spec: The data set.
        model: The data set's ``train.model``.
        record: The job's folder.
        candidate: The output of the job.
        folder: The model.
    """

    spec: DatasetSpec
    model: ModelSpec
    record: JobRecord
    candidate: Candidate
    folder: ModelFolder

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the training and of ``train.model.evaluate``, if there is one."""
        return {**self.candidate.metrics, **self._evaluated(self.candidate.output)}

    def report(self, metrics: Mapping[str, float]) -> GateReport:
        """Compare ``metrics`` with the limits and with the promoted model."""
        return judge(self.model, metrics, self._compared())

    def _compared(self) -> Baseline:
        version = current_version(self.folder, PROD)
        if version is None:
            return Baseline(None, None, "not compared: there is no promoted model")
        try:
            promoted = self._promoted()
        except DAMAGED as error:
            logger.warning("%s/%s is damaged: %s", self.folder.name, version, error)
            return Baseline(version, None, f"not compared: {version} is damaged: {error}")
        if self.model.evaluate is not None:
            metrics = self._evaluated(promoted.path)
            return Baseline(version, metrics, f"{version} was evaluated on the same data")
        if promoted.manifest.data_digest == data_digest(self.candidate.data):
            note = f"{version} was trained on the same data"
            return Baseline(version, promoted.manifest.metrics, note)
        note = f"not compared: {version} was trained on other data, train.model has no evaluate"
        return Baseline(version, None, note)

    def _promoted(self) -> Model:
        """Return the promoted model, verified as far as the comparison reads it."""
        promoted = current(self.folder, PROD)
        assert promoted is not None  # noqa: S101 - the alias has a version
        if self.model.evaluate is not None:
            promoted.verify()
        return promoted

    def _evaluated(self, model: Path) -> dict[str, float]:
        entry = self.model.evaluate
        if entry is None:
            return {}
        return evaluate_model(self.spec, self.folder.models.parent, self.record, model, entry)


def closed(job: str, model: str, report: GateReport) -> GateError:
    """Return the error for a job that does not pass the gate."""
    return GateError(
        f"job {job} does not pass the gate of model {model}: {'; '.join(report.reasons())}"
        f" ({report.compared.note}); no version was made and prod is unchanged; look at the data of"
        " the job, or change train.model in dataset.yaml and clear the task",
        report={"gate": report.to_json()},
    )


# --- From a finished job to a promoted model: the gate, the version, the alias; each step once

GATE_FILE: Final = "gate.json"


# The report of the gate, and ``job``: name of the job, which is missing without a seal.
_FILE: Final[RecordFile[dict[str, Any]]] = RecordFile(
    dict,
    "the verdict of the gate on a job",
    "nothing was changed; a job that has no version yet is judged again",
    mode=0o644,
    max_bytes=canonical_json.MAX_BYTES,
    place=ONCE_UNSEALED["gate of a training"],
)


def evaluate(spec: DatasetSpec, env: Environment, interval: str, job: str) -> dict[str, Any]:
    """Compare a finished job with the gate, and publish its model as the candidate.

    Args:
        spec: The data set.
        env: The environment.
        interval: Name of the job's interval.
        job: Name of the job.

    Returns:
        The fields of ``Model.to_json``, ``verdict`` (made or adopted) and ``gate``; ``tracking``,
        how the delivery to a tracking server ended, when there is one.

    Raises:
        GateError: A metric does not pass; ``report`` has the gate. There is no new version.
        JobRejectedError: The job has no result.
        ConfigError: The data set has no ``train.model``, or the job left no file.
        ConflictError: The job made a version that retention removed; no other one is made.
        ChecksumError: A file of the job's output differs from its result.
        LaunchError: The evaluation failed.
        StorageError: The publication root refused or failed.
    """
    model, tracker = _require_model(spec), Tracker.of(spec, env)
    root = Path(env.root)
    require_writable_root(env)
    folder = ModelsFolder(root).model(model.name)
    record = JobRecord(DatasetFolder(root, spec.name).training(interval, job))
    known = find(folder, record.job().identity)
    if known is None:
        refuse_removed(folder, record.job().identity)
        judgement = Judgement(spec, model, record, candidate_of(root, record), folder)
        candidate, gate = _judged(judgement)
        known, verdict = register(folder, candidate)[0], "made"
    else:
        gate, verdict = _kept(record.home), "adopted"
    faults.point("evaluate.after_register")
    _make_candidate(folder, known.manifest.version, f"job {job}", is_new=verdict == "made")
    report = {**known.to_json(), "verdict": verdict, "gate": gate}
    if tracker is not None:
        # First the run, which an earlier step may not have delivered: the version names it.
        run = tracker.job(record, record.job(), "FINISHED")
        report["tracking"] = {**tracker.model(folder), "run": run["mlflow"]}
    return report


def promote(  # noqa: PLR0913 - the options of a change
    spec: DatasetSpec,
    env: Environment,
    version: str,
    why: str,
    *,
    request: str,
    who: str | None = None,
    account: str | None = None,
) -> dict[str, Any]:
    """Point ``prod`` to a version of the data set's model.

    With ``train.model.promote: automatic``, a model does not replace one of a later interval.

    Args:
        spec: The data set.
        env: The environment.
        version: Name of the version, such as ``v0003``.
        why: The reason, for people.
        request: Name of the request; a repeated request changes nothing, also after a rollback.
        who: The person who approved; the account if None.
        account: The run that acts for the person; the account of this process if None.

    Returns:
        ``model``, ``version``, ``prod`` (the version that the alias points to now), ``verdict``
        (promoted or unchanged) and, if ``prod`` points to another version, ``note``; ``tracking``
        as ``evaluate``.

    Raises:
        ConfigError: The data set has no ``train.model``, or its tracking server no settings.
        NotFoundError: There is no such version.
        ChecksumError: The model is damaged; ``prod`` is unchanged.
        StorageError: The publication root refused or failed.
    """
    model, tracker = _require_model(spec), Tracker.of(spec, env)
    require_writable_root(env)
    folder = ModelsFolder(Path(env.root)).model(model.name)
    _, is_new = point_alias(
        folder,
        PROD,
        parse_version(version),
        why,
        request=request,
        only_if_newer=model.promote == "automatic",
        who=who,
        account=account,
    )
    now = current(folder, PROD)
    prod = None if now is None else model_version(now.manifest.version)
    verdict = "promoted" if is_new else "unchanged"
    report: dict[str, Any] = {
        "model": model.name,
        "version": version,
        "prod": prod,
        "verdict": verdict,
        **({"tracking": tracker.model(folder)} if tracker is not None else {}),
    }
    if now is None or prod == version:
        return report
    note = f"prod points to {prod}, of {now.manifest.job.interval}; see trainfeed models show"
    return {**report, "note": f"{note} {folder.name}/{prod}"}


def _make_candidate(folder: ModelFolder, number: int, request: str, *, is_new: bool) -> None:
    """Point ``candidate`` to a version, once for each request.

    The request of a new version may be known already, from an earlier version that is damaged.
    """
    is_known = is_new and any(each.request == request for each in history(folder, CANDIDATE))
    point_alias(folder, CANDIDATE, number, "passed its gate", request=None if is_known else request)


def _require_model(spec: DatasetSpec) -> ModelSpec:
    if spec.train is None or spec.train.model is None:
        raise ConfigError(f"data set {spec.name!r} has no model; add 'train.model' to dataset.yaml")
    return spec.train.model


def _judged(judgement: Judgement) -> tuple[Candidate, dict[str, Any]]:
    """Return the candidate with all metrics, and the report, which is written to ``gate.json``."""
    metrics = judgement.metrics()
    report = judgement.report(metrics)
    kept = report.to_json()
    home = judgement.record.home
    _FILE.replace(home / GATE_FILE, {**kept, "job": home.name})
    faults.point("evaluate.after_gate")
    if not report.passed:
        raise closed(judgement.candidate.job.name, judgement.folder.name, report)
    return replace(judgement.candidate, metrics=metrics), kept


def _kept(home: Path) -> dict[str, Any]:
    try:
        found = _FILE.read(home / GATE_FILE, job=home.name)
    except FormatError as error:
        logger.warning("the gate that the model passed is not known any more: %s", error)
        return {}
    if found is None:
        logger.warning("the gate that the model passed is not known any more: %s is gone", home)
        return {}
    return {name: each for name, each in found.items() if name != "job"}
