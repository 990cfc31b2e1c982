"""A model in MLflow's registry: its versions, and the aliases as they stand here."""

from __future__ import annotations

from trainfeed.dataset import DatasetFolder
from trainfeed.errors import TrackingError
from trainfeed.jobs import JobRecord
from trainfeed.models import CANDIDATE, PROD, Model, ModelFolder, current, model_version
from trainfeed.paths import make_folders
from trainfeed.storage import posix
from trainfeed.tracking._mlflow_calls import EXISTS, MlflowCalls
from trainfeed.tracking._mlflow_run import LOCK, MlflowRun
from trainfeed.tracking._mlflow_settings import MlflowSettings

__all__ = ["mirror_model"]


def mirror_model(settings: MlflowSettings, experiment: str, folder: ModelFolder) -> None:
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
