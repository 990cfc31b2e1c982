"""Stage ``publish``: one rename makes the version visible, completely or not at all.

All steps up to the rename can be repeated, and so can the barrier (the sync) behind it; no later
step can turn success into failure. The steps are those of docs/authors/adr/0003: manifest, seal,
verify, commit, barrier, pointer.
"""

from __future__ import annotations

import logging
from pathlib import Path

from trainfeed import faults
from trainfeed.dataset import DatasetFolder, TrainingMarks, Version, lift_skip
from trainfeed.dataset.layout import CURRENT, CURRENT_BYTES, parse_generation
from trainfeed.dataset.publication import commit_folder, confirm_folder, seal_folder
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
from trainfeed.pipeline.stage import Stage, lift_end, measured_again, recorded_end, run_stage
from trainfeed.pipeline.version import assemble, checked_content, require_wanted
from trainfeed.storage import posix

__all__ = ["publish", "summary"]

logger = logging.getLogger(__name__)


def publish(build: Build) -> PublishReport:
    """Publish the version that passed ``check``.

    Returns:
        The facts about the version; the verdict is built, or published if it was so before.

    Raises:
        ConflictError: The generation was published from another fingerprint.
        NonDeterminismError: The generation was published from this fingerprint with other content.
        WithdrawnError: The same content was withdrawn, and the plan does not know that.
        CommitUnknownError: The file system did not confirm the commit.
        QuotaExceededError: The publication root is full.
    """
    _mark_training(build)
    done = run_stage("publish", build, _publish)
    stage = Stage.open(build)
    version = Version.open(stage.version_path)
    # After the rename, two steps can fail the task: the confirmation, and the comparison, which
    # therefore comes behind pointer and marks. The clean-up is last, because it removes the files
    # that the comparison needs.
    with recorded_end(stage.folder, build.ref.interval, "publish", build.ref.plan_id):
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
    """Record since when the data set has a training, before this version becomes visible."""
    marks = TrainingMarks(DatasetFolder(Path(build.env.root), build.ref.dataset))
    if build.spec.train is None:
        marks.end()
    else:
        marks.begin(build.ref.interval)


def summary(version: Version) -> VersionSummary:
    """Return the facts about a version that reports and events have."""
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
    with measured_again(stage):
        assemble(stage)
        faults.point("publish.after_manifest")
        seal_folder(stage.staged)
        Version.open(stage.staged).verify()
    faults.point("publish.after_verify")
    return StageReport(stage="publish", verdict=_commit(stage))


def _commit(stage: Stage) -> str:
    """Rename the staged version; return the verdict: ``published`` when another run was faster."""
    target = stage.version_path
    lock = stage.folder.interval_lock(stage.plan.interval["name"])
    posix.make_public_dir(target.parent)
    # Nobody withdraws a version of the interval between the look at the withdrawals and the rename.
    with posix.file_lock(lock):
        require_wanted(stage)
        faults.point("publish.before_rename")
        is_ours = commit_folder(stage.staged, target)
    if is_ours:
        faults.point("publish.after_rename")
        return "built"
    if stage.published() is None:
        raise ConflictError(
            f"{target} exists but holds no manifest; nothing was changed; look into it, move it"
            " away, and retry"
        )
    return "published"


def _require_equal(stage: Stage, version: Version) -> None:
    """Compare a version that was published before with the content that passed ``check`` here."""
    name = f"{stage.plan.dataset}/{stage.plan.interval['name']}/{version.path.name}"
    try:
        if not stage.verdict_file.exists():
            # The usual case: this run made nothing, and publication removes the work files.
            logger.info("%s was published before; this run made nothing to compare with it", name)
            return
        ours = checked_content(stage)
    except TrainFeedError as error:
        logger.warning("%s was published before; not compared with this run: %s", name, error)
        return
    if ours == version.manifest.content_digest:
        return
    # Without the verdict, the next run finds the interval published and reports success.
    stage.verdict_file.delete()
    raise NonDeterminismError(
        f"{version.path} has content {version.manifest.content_digest}, this run made {ours} from"
        f" the same fingerprint, its work files are in {stage.spill.uri}; the published version"
        " stays; make preprocessing a pure function of record and lookups"
    )


def _point(version: Version) -> None:
    """Move CURRENT forward, or take it away: without it, readers get the newest generation.

    The file is advisory: a failure here leaves the version published.
    """
    pointer = version.path.parent / CURRENT
    try:
        with posix.file_lock(version.path.parent / ".lock"):
            if _pointed(pointer) < version.manifest.generation:
                name = f"{version.path.name}\n".encode()
                posix.replace_file(pointer, name, is_public=True)
    except (TrainFeedError, OSError, UnicodeDecodeError) as error:
        logger.warning("%s was not updated, the next run will: %s", pointer, error)
        _take_away(pointer, version.manifest.generation)


def _take_away(pointer: Path, generation: int) -> None:
    """Remove a CURRENT that names an older generation; this needs no space."""
    try:
        if _pointed(pointer) < generation:
            pointer.unlink(missing_ok=True)
    except OSError as error:
        logger.warning("%s stays, and readers get what it names: %s", pointer, error)


def _lift(stage: Stage) -> None:
    """Remove the marks of an interval that was skipped, or failed, before its version."""
    interval = stage.plan.interval["name"]
    lift_end(stage.folder, interval)
    try:
        if lift_skip(stage.folder, interval):
            logger.info("%s/%s is left out no more", stage.plan.dataset, interval)
    except (TrainFeedError, OSError) as error:
        marker = stage.folder.skip(interval)
        logger.warning("%s was not removed, the next run will: %s", marker, error)


def _pointed(pointer: Path) -> int:
    """Return the generation that CURRENT names, 0 if it names none."""
    try:
        return parse_generation(
            read_plain(pointer, follow=False, max_bytes=CURRENT_BYTES).decode().strip()
        )
    except (ConfigError, FormatError, StorageError, UnicodeDecodeError):
        return 0


def _clean(stage: Stage) -> None:
    """Remove the work files, and the staging folder of a slower run of the same plan."""
    try:
        stage.spill.delete(recursive=True)
        posix.remove_tree(stage.staged)
    except (TrainFeedError, OSError) as error:
        logger.warning("work files of plan %s stay behind: %s", stage.plan.plan_id, error)
