"""An MLflow tracking server: settings, requests, the run of a job, models in the registry."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from http.client import responses
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlencode

from trainfeed.core import canonical_json, faults
from trainfeed.core.printable_text import printable, without_secrets
from trainfeed.errors import ConfigError, FormatError, NotFoundError, ServiceError, TrackingError
from trainfeed.files import make_folders, read_plain
from trainfeed.files.records import record_of
from trainfeed.files.stores import posix
from trainfeed.serving.server import Connections, HttpSettings, NoAnswerError, Reply, named_settings
from trainfeed.training.jobs import JobRecord, JobSpec
from trainfeed.training.models import CANDIDATE, PROD, Model, ModelFolder, current, model_version
from trainfeed.versions import DatasetFolder

# --- The settings of an MLflow tracking server: the installation's, not those of a data set

_REMEDY: Final = (
    "correct it in the file of TRAINFEED_TRACKERS, in Airflow in the extras of the connection;"
    " nothing was started"
)


def tracker_settings(trackers: Mapping[str, Mapping[str, Any]], connection: str) -> HttpSettings:
    """Return the settings of a connection.

    Args:
        trackers: Settings by connection id.
        connection: The id.

    Raises:
        ConfigError: There are none, or one is wrong; the message has no values, which may be
            secrets.
    """
    advice = f"add them: {connection}: {{url: 'https://mlflow.example'}}; {_REMEDY}"
    found = named_settings(trackers, connection, "tracking server", advice)
    return HttpSettings.of(found, connection, _REMEDY)


# --- Requests to an MLflow tracking server: its REST interface, version 2.0

EXISTS: Final = "RESOURCE_ALREADY_EXISTS"
MISSING: Final = "RESOURCE_DOES_NOT_EXIST"
_PATH: Final = "/api/2.0/mlflow/"
_MOST_SHOWN: Final = 300


class MlflowCalls:
    """The requests of one delivery, with one deadline for all of them.

    Args:
        settings: Address, credentials and time limit.

    Raises:
        TrackingError: A file of certificates cannot be read.
    """

    def __init__(self, settings: HttpSettings) -> None:
        self._settings = settings
        self._end_s = time.monotonic() + settings.timeout_s
        self._headers = {"Content-Type": "application/json", "Connection": "close"}
        self._headers |= settings.authorization()
        try:
            context = settings.tls()
        except ConfigError as error:
            raise TrackingError(str(error)) from error
        self._server = Connections(settings.url, context)

    @property
    def left_s(self) -> float:
        """Seconds that are left.

        Raises:
            TrackingError: None are left.
        """
        left_s = self._end_s - time.monotonic()
        if left_s <= 0:
            raise TrackingError(
                f"{self._settings.url} took more than {self._settings.timeout_s:g} s (timeout_s)"
            )
        return left_s

    def get(self, path: str, **query: str) -> dict[str, Any]:
        """Return the answer to a question.

        Raises:
            TrackingError: The server refused, failed or did not answer; ``code`` is MLflow's.
        """
        return self._send("GET", f"{path}?{urlencode(query)}")

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a request that changes something; see ``get``."""
        return self._send("POST", path, json.dumps(body, allow_nan=False).encode())

    def _send(self, method: str, path: str, body: bytes = b"") -> dict[str, Any]:
        _ = self.left_s  # an error when the time is over
        try:
            reply = self._server.ask(
                method, _PATH + path, body=body, headers=self._headers, until=self._end_s
            )
        except (NoAnswerError, ServiceError) as error:
            _ = self.left_s
            reason = printable(str(error))[:_MOST_SHOWN]
            raise TrackingError(f"{self._settings.url} did not answer: {reason}") from error
        found = _object(reply)
        if not reply.is_success:
            raise self._refused(reply, found or {})
        if found is None:
            raise TrackingError(f"expected a JSON object from {self._settings.url}, got another")
        return found

    def _refused(self, reply: Reply, found: Mapping[str, Any]) -> TrackingError:
        code, text = str(found.get("error_code", "")), str(found.get("message", ""))
        said = printable(without_secrets(text))[:_MOST_SHOWN] or responses.get(reply.status, "")
        return TrackingError(
            f"{self._settings.url} refused, status {reply.status} {printable(code)}: {said}",
            code=code,
        )


def _object(reply: Reply) -> dict[str, Any] | None:
    try:
        found = json.loads(reply.body)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


# --- The lines of a metrics log as points of curves, in batches as an MLflow server takes them

# The limit of the interface for one request.
MOST_POINTS: Final = 1000
_METRICS_LOG: Final = "metrics.jsonl"
_MOST_LINE_BYTES: Final = 64 << 20
_NO_METRICS: Final = ("step", "samples")
# Numbers that JSON has not: as the log writes them, and as the interface does.
_NOT_FINITE: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def logged_lines(home: Path) -> bytes:
    """Return the complete lines of the metrics log of a job's folder; b"" without a log.

    Raises:
        StorageError: The log cannot be read.
    """
    try:
        data = read_plain(home / _METRICS_LOG, follow=False, max_bytes=_MOST_LINE_BYTES)
    except NotFoundError:
        return b""
    return data[: data.rfind(b"\n") + 1]


def end_of_batch(data: bytes, start: int) -> int:
    """Return the end of the last line up to which the points fit into one request."""
    stop, num_points = start, 0
    while stop < len(data):
        end = data.index(b"\n", stop) + 1
        num_points += sum(1 for _ in points_of(data[stop:end], 0))
        if num_points > MOST_POINTS and stop > start:
            break
        stop = end
    return stop


def points_of(lines: bytes, stamp_ms: int) -> Iterator[dict[str, Any]]:
    """Yield the points of lines: key, value, step, and ``stamp_ms`` as their time."""
    for line in lines.splitlines():
        found = _parsed(line)
        for name, value in found.items() if "step" in found else ():
            if name not in _NO_METRICS:
                number = _NOT_FINITE.get(value) if isinstance(value, str) else float(value)
                yield {"key": name, "value": number, "timestamp": stamp_ms, "step": found["step"]}


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        found = canonical_json.loads(line)
    except FormatError:
        return {}
    return found if isinstance(found, dict) else {}


# --- The note ``mlflow.json`` of a job's folder: the parts of the job that the server has

NOTE: Final = "mlflow.json"
_MOST_NOTE_BYTES: Final = 1 << 16


@dataclass(frozen=True)
class DeliveryNote:
    """The state of a delivery.

    Attributes:
        server: URL of the server.
        experiment: Name of the experiment.
        run: Id of the run; empty before there is one.
        is_described: Whether the run has its parameters, tags and inputs.
        log_bytes: Number of bytes of the metrics log that the run has.
        sent_bytes: The same with the batch that is under way.
        sent_ms: Time stamp of the points of that batch, in milliseconds since 1970.
        status: Status of the run as it was delivered last.
    """

    server: str
    experiment: str
    run: str = ""
    is_described: bool = False
    log_bytes: int = 0
    sent_bytes: int = 0
    sent_ms: int = 0
    status: str = ""

    @classmethod
    def read(cls, home: Path, server: str, experiment: str) -> Self:
        """Return the note of a job's folder; a new one if there is none for this experiment."""
        path = home / NOTE
        try:
            data = read_plain(path, follow=False, max_bytes=_MOST_NOTE_BYTES)
            note = record_of(cls, canonical_json.loads(data, path=str(path)))
        # A note that is damaged costs requests: run and points are found on the server again.
        except (FormatError, NotFoundError, ValueError):
            return cls(server, experiment)
        is_ours = (note.server, note.experiment) == (server, experiment)
        return note if is_ours else cls(server, experiment)

    def write(self, home: Path) -> None:
        """Replace the note of a job's folder.

        Raises:
            StorageError: The file cannot be written.
        """
        posix.replace_file(home / NOTE, canonical_json.dumps(asdict(self)))


# --- The MLflow run of a job: one run per job, found by its tag, with each step of its log once

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

    settings: HttpSettings
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


# --- A model in MLflow's registry: its versions, and the aliases as they stand here


def mirror_model(settings: HttpSettings, experiment: str, folder: ModelFolder) -> None:
    """Bring the registry to the state of a model: versions with an alias, and the aliases.

    The files of a version stay in the publication root; the registry gets the place of the version
    there, its run and its digests. The state here counts: an alias that was moved in MLflow is
    moved back.

    Args:
        settings: The server.
        experiment: Name of the experiment with the runs of the model's jobs.
        folder: The model.

    Raises:
        TrackingError: The server refused, failed or did not answer.
        StorageError: The model cannot be read, or another process delivers at this time.
    """
    calls = MlflowCalls(settings)
    _ensure_model(calls, folder.name)
    for alias in (CANDIDATE, PROD):
        model = current(folder, alias)
        if model is not None:
            number = _version(calls, MlflowRun(settings, experiment, _record(folder, model)), model)
            body = {"name": folder.name, "alias": alias, "version": number}
            calls.post("registered-models/alias", body)


def _ensure_model(calls: MlflowCalls, name: str) -> None:
    try:
        calls.post("registered-models/create", {"name": name})
    except TrackingError as error:
        if error.code != EXISTS:
            raise


def _record(folder: ModelFolder, model: Model) -> JobRecord:
    job = model.manifest.job
    home = DatasetFolder(folder.models.parent, job.dataset).training(job.interval, job.name)
    return JobRecord(home)


def _version(calls: MlflowCalls, run: MlflowRun, model: Model) -> str:
    """Return the registry's number of a version, which is made if it is not there."""
    make_folders(run.record.home)
    # One version comes from one job, so the lock of its run keeps a second one from being made.
    with posix.file_lock(run.record.home / LOCK, timeout_s=calls.left_s):
        name, version = model.manifest.model, model_version(model.manifest.version)
        wanted = f"name = '{name}' and tags.`trainfeed.version` = '{version}'"
        found = calls.get("model-versions/search", filter=wanted, max_results="10")
        numbers = [int(each["version"]) for each in found.get("model_versions", [])]
        if numbers:
            return str(min(numbers))
        known = run.known()
        tags = _tags(model, version)
        body = {
            "name": name,
            "source": f"trainfeed:/models/{name}/{version}",
            "tags": [{"key": f"trainfeed.{key}", "value": value} for key, value in tags.items()],
            **({"run_id": known} if known else {}),
        }
        return str(calls.post("model-versions/create", body)["model_version"]["version"])


def _tags(model: Model, version: str) -> dict[str, str]:
    manifest = model.manifest
    return {
        "version": version,
        "job": manifest.job.name,
        "identity": manifest.job.identity,
        "code": manifest.job.code,
        "dataset": manifest.job.dataset,
        "interval": manifest.job.interval,
        "data_digest": manifest.data_digest,
    }
