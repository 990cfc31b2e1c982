"""Builds the job of a training window, or of a tag, from specification, versions and settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainfeed.config import Environment
from trainfeed.dataset import Coverage, DatasetFolder, Version, cover_named
from trainfeed.dataset.layout import parse_generation
from trainfeed.dataset.tag import cover_tag
from trainfeed.dataset.tag_files import Tag
from trainfeed.dataset.withdraw import withdrawal_of
from trainfeed.errors import ConfigError, JobRejectedError, WindowIncompleteError, WithdrawnError
from trainfeed.intervals import Interval
from trainfeed.jobs import ClusterSettings, JobPlacement, JobSpec, JobVersion
from trainfeed.specification import DatasetSpec, TrainSpec
from trainfeed.training.transfers import download_start_model, has_start_model, start_model_digest
from trainfeed.usercode import digest_of_texts, training_texts

__all__ = ["require_readable", "require_training", "window_job"]


def require_training(spec: DatasetSpec) -> TrainSpec:
    """Return the training of a data set.

    Raises:
        ConfigError: The data set has no training.
    """
    if spec.train is None:
        raise ConfigError(f"data set {spec.name!r} has no training; add 'train' to dataset.yaml")
    return spec.train


def window_job(  # noqa: PLR0913 - options of a launch
    spec: DatasetSpec,
    env: Environment,
    folder: DatasetFolder,
    interval: Interval,
    start_model: str | None = None,
    *,
    tag: Tag | None = None,
    copies: bool = True,
) -> JobSpec:
    """Return the job of the window of intervals that ends with ``interval``, or of a tag.

    The window is looked at first, because a download takes longer.

    Args:
        spec: The data set.
        env: The environment.
        folder: The data set's folder.
        interval: The interval.
        start_model: Digest of the downloaded model that the training starts from. Without it, the
            model of ``train.model.download`` is downloaded now, if there is one.
        tag: The tag whose versions are read, in the place of the window; ``interval`` is its last.
        copies: Whether that download takes place; otherwise only the digest is read, if the store
            has it.

    Raises:
        WindowIncompleteError: Intervals of the window are not published yet, or the versions have
            a hole between them.
        NotFoundError: All intervals of the window were left out by decision.
        ConfigError: The data set has no training, its module is missing, or its cluster has no
            settings.
        JobRejectedError: The installation does not allow the image, or it has no digest.
        ConflictError: A version of the tag is withdrawn or removed.
        StorageError: The start model could not be downloaded.
    """
    job = _job(spec, env, folder, interval, tag)
    if start_model is None and has_start_model(spec):
        start_model = _downloaded(spec, env) if copies else start_model_digest(spec, env)
    fields = {name: value for name, value in job if name not in {"name", "start_model"}}
    return JobSpec.named(**fields, start_model=start_model)


def require_readable(job: JobSpec, folder: DatasetFolder) -> None:
    """Refuse a job of which a version was withdrawn since its window was looked at.

    Whoever starts a job calls this after the job file is written, and before the job begins.

    Raises:
        WithdrawnError: A version is withdrawn; nothing was started.
    """
    for each in job.versions:
        mark = withdrawal_of(folder, each.interval, parse_generation(each.generation))
        if mark is not None:
            raise WithdrawnError(
                f"job {job.name} would read a withdrawn version: {mark.told}; nothing was started;"
                " train again: the window is resolved anew (in Airflow: clear the task)"
            )


def _downloaded(spec: DatasetSpec, env: Environment) -> str:
    return str(download_start_model(spec, env)["start_model"])


def _job(
    spec: DatasetSpec,
    env: Environment,
    folder: DatasetFolder,
    interval: Interval,
    tag: Tag | None,
) -> JobSpec:
    training = require_training(spec)
    window = _covered(spec, training, folder, interval) if tag is None else cover_tag(folder, tag)
    _require_module(spec, training)
    return JobSpec.named(
        dataset=spec.name,
        interval=interval.name,
        folder=".",
        entry=training.entry,
        code=digest_of_texts(training_texts(spec.folder)),
        seed=spec.seed,
        ranks=training.ranks,
        versions=[_version(version, folder.root) for version in window.versions],
        skipped=[skip.interval for skip in window.skipped],
        image=_image(training, env.clusters),
        command=None if training.command is None else list(training.command),
        environment=dict(training.environment),
        placement=_placement(training),
        tensorboard=training.tracking.tensorboard,
        tag=None if tag is None else tag.name,
        accepted=[hole.range for hole in window.accepted],
    )


def _covered(
    spec: DatasetSpec, training: TrainSpec, folder: DatasetFolder, interval: Interval
) -> Coverage:
    schedule = spec.schedule_model()
    names = [i.name for i in schedule.previous(interval, training.window)]
    # Looks at the folders, not at CURRENT, which may not name a version that was just published.
    found = cover_named(folder, names, generation_of=folder.current_generation, window_of=schedule)
    if found.missing:
        error = WindowIncompleteError(
            f"training of {spec.name}/{interval.name} reads {len(names)} intervals, not published"
            f" yet: {', '.join(found.missing)}; nothing was started; wait, or {found.remedy}"
        )
        error.missing = found.missing
        raise error
    if not found.versions:
        found.require("fail")
    return found


def _require_module(spec: DatasetSpec, training: TrainSpec) -> None:
    module = spec.folder / f"{training.module}.py"
    if training.module is not None and not module.is_file():
        raise ConfigError(f"expected a module {module}, found none; train.entry names it")


def _version(version: Version, root: Path) -> JobVersion:
    return JobVersion(
        interval=version.path.parent.name,
        generation=version.path.name,
        path=version.path.relative_to(root).as_posix(),
        content_digest=version.manifest.content_digest,
        manifest_sha256=version.manifest_sha256,
    )


def _image(training: TrainSpec, clusters: Mapping[str, Mapping[str, Any]]) -> str | None:
    if training.is_local:
        return None
    image = ClusterSettings.of(clusters, training.connection).image_of(training.image)
    if "@sha256:" not in image and not training.allow_tag:
        raise JobRejectedError(
            f"expected an image by its digest, name@sha256:…, got {image!r}; nothing was started;"
            " correct the image of the cluster's settings, or give train.allow_tag: true"
        )
    return image


def _placement(training: TrainSpec) -> JobPlacement | None:
    if training.is_local:
        return None
    gpu, limit = training.gpu, training.time_limit
    return JobPlacement(
        launcher=training.launcher,
        connection=training.connection,
        cpu=None if training.cpu is None else float(training.cpu),
        memory_bytes=training.memory,
        gpu_type=gpu.type if gpu else None,
        gpu_number=gpu.number if gpu else 0,
        shared_memory_bytes=training.shared_memory,
        volumes=list(training.volumes),
        node_selector=dict(training.node_selector),
        tolerations=[each.model_dump(exclude_none=True) for each in training.tolerations],
        image_pull_secret=training.image_pull_secret,
        queue=training.queue,
        priority=training.priority,
        time_limit_s=int(limit.total_seconds()) if limit else None,
        retries=training.retries,
    )
