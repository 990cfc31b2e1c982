"""Stage ``publish``: one rename makes the version visible, completely or not at all.

Everything before the rename can be repeated, and so can the barrier behind it; nothing after that
can turn success into failure. The steps are those of docs/authors/adr/0003: manifest, seal,
verify, commit, barrier, pointer.
"""

from __future__ import annotations

import logging
from pathlib import Path

from trainfeed import faults
from trainfeed.dataset import DatasetFolder, TrainingMarks, Version, lift_skip
from trainfeed.dataset.layout import CURRENT, CURRENT_BYTES, parse_generation
from trainfeed.dataset.staging import commit_folder, confirm_folder, seal_folder
from trainfeed.errors import (
    ConfigError,
    ConflictError,
    FormatError,
    NonDeterminismError,
    StorageError,
    TrainFeedError,
)
from trainfeed.paths import read_plain
from trainfeed.pipeline._ref import Build
from trainfeed.pipeline._stage_reports import PublishReport, StageReport, VersionSummary
from trainfeed.pipeline.stage import Stage, run_stage
from trainfeed.pipeline.version import assemble, checked_content
from trainfeed.storage import posix

__all__ = ["publish", "summary"]

logger = logging.getLogger(__name__)


def publish(build: Build) -> PublishReport:
    """Publish what ``check`` let through.

    Returns:
        What the version has; the verdict is built, or published when it was there already.

    Raises:
        ConflictError: The generation was published from another fingerprint.
        NonDeterminismError: It was published from this fingerprint with other content.
        CommitUnknownError: The file system did not say whether the commit took place.
        QuotaExceededError: The publication root is full.
    """
    _mark_training(build)
    done = run_stage("publish", build, _publish)
    stage = Stage.open(build)
    version = Version.open(stage.version_path)
    confirm_folder(stage.version_path, stage.folder.staging)
    _point(version)
    _lift(stage)
    if done.verdict == "published":
        _require_equal(stage, version)
    _clean(stage)
    return PublishReport(
        verdict=done.verdict, seconds=done.seconds, version=version.name, summary=summary(version)
    )


def _mark_training(build: Build) -> None:
    """Write down since when the data set has a training, before this version is there."""
    marks = TrainingMarks(DatasetFolder(Path(build.env.root), build.ref.dataset))
    if build.spec.train is None:
        marks.end()
    else:
        marks.begin(build.ref.interval)


def summary(version: Version) -> VersionSummary:
    """Return what reports and events say of a version."""
    manifest = version.manifest
    shards = [shard for split in manifest.splits.values() for shard in split.shards]
    return VersionSummary(
        dataset=manifest.dataset,
        interval=version.path.parent.name,
        generation=version.path.name,
        fingerprint=manifest.fingerprint,
        content_digest=manifest.content_digest,
        manifest_sha256=version.manifest_sha256,
        samples=manifest.num_samples(),
        quarantined=manifest.quarantine["records"],
        filtered=sum(manifest.filtered.values()),
        shards=len(shards),
        bytes=sum(num_bytes for num_bytes, _ in manifest.file_digests().values()),
    )


def _publish(stage: Stage) -> StageReport:
    assemble(stage)
    faults.point("publish.after_manifest")
    seal_folder(stage.staged)
    Version.open(stage.staged).verify()
    faults.point("publish.after_verify")
    return StageReport(stage="publish", verdict=_commit(stage))


def _commit(stage: Stage) -> str:
    """Rename the staged version; return the verdict: ``published`` when another run was faster."""
    target = stage.version_path
    faults.point("publish.before_rename")
    if commit_folder(stage.staged, target):
        faults.point("publish.after_rename")
        return "built"
    if stage.published() is None:
        raise ConflictError(
            f"{target} exists but holds no manifest; nothing was changed; look into it, move it"
            " away, and retry"
        )
    return "published"


def _require_equal(stage: Stage, version: Version) -> None:
    """Compare a version that was there already with what ``check`` let through in this run."""
    name = f"{stage.plan.dataset}/{stage.plan.interval['name']}/{version.path.name}"
    try:
        if not stage.verdict_file.exists():
            # The rule: nothing was made, and work files go when their plan is published.
            logger.info("%s was published before; this run made nothing to compare with it", name)
            return
        ours = checked_content(stage)
    except TrainFeedError as error:
        logger.warning("%s was published before; not compared with this run: %s", name, error)
        return
    if ours == version.manifest.content_digest:
        return
    # Said once: the next run finds the interval published.
    stage.verdict_file.delete()
    raise NonDeterminismError(
        f"{version.path} has content {version.manifest.content_digest}, this run made {ours} from"
        f" the same fingerprint, its work files are in {stage.spill.uri}; the published version"
        " stays; make preprocessing a pure function of record and lookups"
    )


def _point(version: Version) -> None:
    """Move CURRENT forward. Advisory: a run that fails here has published all the same."""
    pointer = version.path.parent / CURRENT
    try:
        with posix.file_lock(version.path.parent / ".lock"):
            if _pointed(pointer) < version.manifest.generation:
                name = f"{version.path.name}\n".encode()
                posix.replace_file(pointer, name, is_public=True)
    except (TrainFeedError, OSError, UnicodeDecodeError) as error:
        logger.warning("%s was not updated, the next run will: %s", pointer, error)


def _lift(stage: Stage) -> None:
    """Remove the marker of an interval that was left out until now; a version counts more."""
    interval = stage.plan.interval["name"]
    try:
        if lift_skip(stage.folder, interval):
            logger.info("%s/%s is left out no more", stage.plan.dataset, interval)
    except (TrainFeedError, OSError) as error:
        marker = stage.folder.skip(interval)
        logger.warning("%s was not removed, the next run will: %s", marker, error)


def _pointed(pointer: Path) -> int:
    """Return the generation that CURRENT names, 0 when it names none."""
    try:
        return parse_generation(
            read_plain(pointer, follow=False, max_bytes=CURRENT_BYTES).decode().strip()
        )
    except (ConfigError, FormatError, StorageError, UnicodeDecodeError):
        return 0


def _clean(stage: Stage) -> None:
    """Drop the work files, and what a slower run has staged since; published is published."""
    try:
        stage.spill.delete(recursive=True)
        posix.remove_tree(stage.staged)
    except (TrainFeedError, OSError) as error:
        logger.warning("work files of plan %s stay behind: %s", stage.plan.plan_id, error)
