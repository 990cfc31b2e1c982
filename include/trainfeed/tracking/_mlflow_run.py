"""The MLflow run of a job: one run per job, found by its tag, with each step of its log once."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from trainfeed import faults
from trainfeed.errors import TrackingError
from trainfeed.jobs import JobRecord, JobSpec
from trainfeed.storage import posix
from trainfeed.tracking._delivery_note import DeliveryNote
from trainfeed.tracking._metric_points import MOST_POINTS, end_of_batch, logged_lines, points_of
from trainfeed.tracking._mlflow_calls import EXISTS, MISSING, MlflowCalls
from trainfeed.tracking._mlflow_settings import MlflowSettings

__all__ = ["LOCK", "MlflowRun"]

LOCK: Final = ".mlflow.lock"
FINISHED: Final = "FINISHED"
# Inputs in one request, which must stay below 1 MB.
_MOST_INPUTS: Final = 100
_MOST_DIGEST_CHARS: Final = 36


@dataclass(frozen=True)
class MlflowRun:
    """The run of one job.

    Attributes:
        settings: The server.
        experiment: Name of the experiment.
        record: The job's folder.
    """

    settings: MlflowSettings
    experiment: str
    record: JobRecord

    def deliver(self, job: JobSpec, status: str) -> str:
        """Bring the run to a status, with all that belongs to it; return the id of the run.

        Points of the metrics log are delivered with status FINISHED: while a job can go on at a
        checkpoint, the lines behind the checkpoint may be replaced.

        Args:
            job: The job.
            status: RUNNING, FINISHED, FAILED or KILLED.

        Raises:
            TrackingError: The server refused, failed or did not answer.
            StorageError: The note or the log cannot be read or written, or another process
                delivers at this time.
        """
        calls = MlflowCalls(self.settings)
        home = self.record.home
        with posix.file_lock(home / LOCK, timeout_s=calls.left_s):
            note = DeliveryNote.read(home, self.settings.url, self.experiment)
            if note.status in {status, FINISHED}:
                return note.run
            try:
                return self._deliver(calls, note, job, status)
            except TrackingError as error:
                if error.code != MISSING or not note.run:
                    raise
                # The run that the note names was deleted on the server.
                fresh = DeliveryNote(self.settings.url, self.experiment)
                return self._deliver(calls, fresh, job, status)

    def known(self) -> str | None:
        """Return the id of the run if it was made by an earlier delivery."""
        note = DeliveryNote.read(self.record.home, self.settings.url, self.experiment)
        return note.run or None

    def _deliver(self, calls: MlflowCalls, note: DeliveryNote, job: JobSpec, status: str) -> str:
        home = self.record.home
        if not note.run:
            note = replace(note, run=_run_of(calls, self.experiment, job))
            faults.point("mlflow.after_run")
            note.write(home)
        if not note.is_described:
            _describe(calls, note.run, job)
            note = replace(note, is_described=True)
            note.write(home)
        if status == FINISHED:
            note = self._metrics(calls, note)
            _result(calls, note.run, self.record)
        ended = {} if status == "RUNNING" else {"end_time": _now_ms()}
        calls.post("runs/update", {"run_id": note.run, "status": status, **ended})
        faults.point("mlflow.after_status")
        replace(note, status=status).write(home)
        return note.run

    def _metrics(self, calls: MlflowCalls, note: DeliveryNote) -> DeliveryNote:
        """Deliver the rest of the metrics log in batches."""
        home = self.record.home
        data = logged_lines(home)
        while note.log_bytes < len(data):
            if note.sent_bytes <= note.log_bytes:
                stop = end_of_batch(data, note.log_bytes)
                note = replace(note, sent_bytes=stop, sent_ms=_now_ms())
                note.write(home)
            points = list(points_of(data[note.log_bytes : note.sent_bytes], note.sent_ms))
            if points:
                calls.post("runs/log-batch", {"run_id": note.run, "metrics": points})
            faults.point("mlflow.after_batch")
            note = replace(note, log_bytes=note.sent_bytes)
            note.write(home)
        return note


def _run_of(calls: MlflowCalls, experiment: str, job: JobSpec) -> str:
    """Return the id of the job's run; one that an attempt before a kill has made is found."""
    known = _experiment(calls, experiment)
    wanted = f"tags.`trainfeed.identity` = '{job.identity}'"
    question = {"experiment_ids": [known], "filter": wanted, "max_results": 100}
    runs = calls.post("runs/search", question).get("runs", [])
    mine = [run["info"] for run in runs if _tag(run, "trainfeed.job") == job.name]
    if mine:
        return str(min(mine, key=lambda info: info["start_time"])["run_id"])
    tags = {"trainfeed.job": job.name, "trainfeed.identity": job.identity}
    body = {
        "experiment_id": known,
        "run_name": job.name,
        "start_time": _now_ms(),
        "tags": _pairs(tags),
    }
    return str(calls.post("runs/create", body)["run"]["info"]["run_id"])


def _experiment(calls: MlflowCalls, name: str) -> str:
    def find() -> str:
        found = calls.get("experiments/get-by-name", experiment_name=name)["experiment"]
        if found.get("lifecycle_stage") != "active":
            raise TrackingError(f"experiment {name!r} is deleted; restore it, or name another")
        return str(found["experiment_id"])

    try:
        return find()
    except TrackingError as error:
        if error.code != MISSING:
            raise
    try:
        return str(calls.post("experiments/create", {"name": name})["experiment_id"])
    except TrackingError as error:
        if error.code != EXISTS:  # another job has made it at the same time
            raise
        return find()


def _describe(calls: MlflowCalls, run: str, job: JobSpec) -> None:
    names = [version.interval for version in job.versions]
    params = {
        "dataset": job.dataset,
        "entry": job.entry or "command",
        "seed": str(job.seed),
        "ranks": str(job.ranks),
        "code": job.code,
        "first_interval": names[0] if names else "",
        "last_interval": job.interval,
        "intervals": str(len(names)),
    }
    body = {"run_id": run, "params": _pairs(params), "tags": _pairs({"trainfeed.code": job.code})}
    calls.post("runs/log-batch", body)
    inputs = [_input(job, number) for number in range(len(job.versions))]
    for start in range(0, len(inputs), _MOST_INPUTS):
        part = inputs[start : start + _MOST_INPUTS]
        calls.post("runs/log-inputs", {"run_id": run, "datasets": part})


def _input(job: JobSpec, number: int) -> dict[str, Any]:
    """Return a version as an input: its place, and the digests of content and manifest."""
    version = job.versions[number]
    source = {
        "version": f"{version.interval}/{version.generation}",
        "content_digest": version.content_digest,
        "manifest_sha256": version.manifest_sha256,
    }
    return {
        "tags": _pairs({"mlflow.data.context": "training"}),
        "dataset": {
            "name": f"{job.dataset}/{version.interval}/{version.generation}",
            "digest": version.manifest_sha256[:_MOST_DIGEST_CHARS],
            "source_type": "trainfeed",
            "source": json.dumps(source, sort_keys=True),
        },
    }


def _result(calls: MlflowCalls, run: str, record: JobRecord) -> None:
    """Deliver the metrics that the training function returned, as ``result/<name>``."""
    result = record.result()
    if result is None:
        return
    stamp = int((record.home / "result.json").stat().st_mtime * 1000)
    points = [
        {"key": f"result/{name}", "value": float(value), "timestamp": stamp, "step": 0}
        for name, value in result.metrics.items()
    ]
    for start in range(0, len(points), MOST_POINTS):
        body = {"run_id": run, "metrics": points[start : start + MOST_POINTS]}
        calls.post("runs/log-batch", body)


def _tag(run: Mapping[str, Any], key: str) -> str | None:
    tags = run.get("data", {}).get("tags", [])
    return next((str(tag["value"]) for tag in tags if tag["key"] == key), None)


def _pairs(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in values.items()]


def _now_ms() -> int:
    return int(time.time() * 1000)
