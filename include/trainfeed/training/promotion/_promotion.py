"""From a finished job to a promoted model: the gate, the version, the alias; each step once.

``evaluate`` compares a job's metrics with the gate of ``train.model`` and publishes its model as
the candidate; ``promote`` points ``prod`` to it. Both can be repeated after a kill at any point:
the verdict of the gate is kept in the job's folder, the model is found by the job's identity, and
each request is carried out once.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from trainfeed import canonical_json, faults
from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder, require_writable_root
from trainfeed.errors import ConfigError, FormatError
from trainfeed.jobs import JobRecord
from trainfeed.models import (
    CANDIDATE,
    PROD,
    Candidate,
    ModelFolder,
    ModelsFolder,
    current,
    find,
    history,
    model_version,
    parse_version,
    refuse_removed,
    register,
)
from trainfeed.models import promote as point_alias
from trainfeed.records import ONCE_UNSEALED, RecordFile
from trainfeed.specification import DatasetSpec, ModelSpec
from trainfeed.tracking import Tracker
from trainfeed.training.promotion._candidate import candidate_of
from trainfeed.training.promotion._judgement import Judgement, closed

__all__ = ["GATE_FILE", "evaluate", "promote"]

logger = logging.getLogger(__name__)

GATE_FILE: Final = "gate.json"


@dataclass(frozen=True)
class _Gate:
    """The report of the gate about a job; the job is None in a file that is not sealed."""

    report: Mapping[str, Any]
    job: str | None = None


def _gate(value: Mapping[str, Any]) -> _Gate:
    report = {name: each for name, each in value.items() if name != "job"}
    return _Gate(report, value.get("job"))


_FILE: Final = RecordFile(
    _Gate,
    "the verdict of the gate on a job",
    "nothing was changed; a job that has no version yet is judged again",
    mode=0o644,
    max_bytes=canonical_json.MAX_BYTES,
    place=ONCE_UNSEALED["gate of a training"],
    to_json=lambda gate: {**gate.report, "job": gate.job},
    from_json=_gate,
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
        is_forward=model.promote == "automatic",
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
    _FILE.replace(home / GATE_FILE, _Gate(kept, home.name))
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
    return dict(found.report)
