"""Stages ``preprocess`` and ``convert`` of one plan as one Spark application."""

from __future__ import annotations

import logging
import tempfile
import threading
import uuid
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from trainfeed.errors import EngineError, StorageError, TrainFeedError
from trainfeed.files import make_folders
from trainfeed.pipeline.functions.account import RecordAccount
from trainfeed.pipeline.reports import Build, PublishedBefore, SparkReport
from trainfeed.pipeline.run_stage import run_stage
from trainfeed.pipeline.sorting.spill_files import ArrowWithTrailer
from trainfeed.pipeline.spark._submission import Submission, command_of, options_of, write_options
from trainfeed.pipeline.spark.application_files import (
    ApplicationCounts,
    ApplicationFolder,
    ApplicationJob,
    Failure,
    progress_in,
    without_stacks,
)
from trainfeed.pipeline.spark.cluster import KnownCauses, SparkCluster
from trainfeed.pipeline.spark.shipment import FunctionPackages, Shipment, digest_of_file
from trainfeed.pipeline.spark.shuffle import written_before
from trainfeed.pipeline.stage import Stage
from trainfeed.pipeline.version import ShardPart
from trainfeed.pipeline.waivers import kept_account, kept_shards
from trainfeed.versions.manifest import ShardEntry

logger = logging.getLogger(__name__)

_TAIL_CHARS: Final = 2000


class SparkApplication:
    """The application of one build.

    Args:
        build: The build; its plan has landed.
        cluster: Where the application runs.
        on_progress: Called, from the thread of ``run``, with how far the application is, as in
            ``preprocess 3 of 7 tasks``; not called for a driver in the cluster.
    """

    def __init__(
        self, build: Build, cluster: SparkCluster, on_progress: Callable[[str], object] = str
    ) -> None:
        self._build = build
        self._cluster = cluster
        self._on_progress = on_progress
        self._causes = KnownCauses(cluster)
        self._submission: Submission | None = None
        # Set by ``cancel``, from another thread.
        self._cancelled = threading.Event()

    def run(self) -> SparkReport | PublishedBefore:
        """Run the application, and wait for its end.

        Returns:
            The counts of records, samples and shards, and what the application took; the verdict is
            built, published or adopted.

        Raises:
            TrainFeedError: The error of a function or a place, as with the local engine.
            ConfigError: Spark is not there; executors lack a place or have another Python.
            EngineError: The application failed by something that may pass.
        """
        return run_stage("spark", self._build, self._run)

    def cancel(self) -> None:
        """End the application; safe to call from another thread, and at any time."""
        self._cancelled.set()
        if self._submission is not None:
            self._submission.cancel()

    def _run(self, stage: Stage) -> SparkReport:
        if kept := _kept(stage):
            return _report(stage, *kept, ApplicationCounts(), verdict="adopted")
        stage.spill.make_dir()
        make_folders(stage.staged)
        folder = ApplicationFolder(stage.spill / f"spark-{uuid.uuid4().hex}")
        try:
            counts = self._submit(stage, folder)
        finally:
            with suppress(StorageError):
                folder.remove()
        accounts = [_account(stage, group) for group in range(len(stage.plan.preprocess))]
        report = _report(stage, accounts, _entries(stage), counts)
        logger.info("spark: %s", _told(report))
        return report

    def _submit(self, stage: Stage, folder: ApplicationFolder) -> ApplicationCounts:
        with tempfile.TemporaryDirectory(prefix="trainfeed-spark-") as scratch:
            shipment = Shipment.pack(stage.spec.folder, Path(scratch))
            folder.create(_job(stage, shipment))
            options = write_options(options_of(self._cluster, stage.spec), Path(scratch))
            ref = self._build.ref
            name = f"trainfeed {ref.dataset}/{ref.interval}"
            command = command_of(self._cluster, name, shipment, options, folder.job_uri)
            if self._cancelled.is_set():
                raise _ended_by_its_task()
            self._submission = Submission(
                command,
                self._cluster.interpreter(),
                with_keys=self._build.env.uses_object_stores,
            )
            if self._cancelled.is_set():  # meanwhile, when there was no submission to end
                self._submission.cancel()
            status = self._submission.wait(self._tell)
        result = folder.result()
        if result is None or isinstance(result, Failure) or status:
            raise self._error_of(result, status)
        return result

    def _tell(self, line: str) -> None:
        self._causes.look(line)
        if (progress := progress_in(line)) is not None:
            self._on_progress(progress)

    def _error_of(self, result: Failure | ApplicationCounts | None, status: int) -> TrainFeedError:
        submission = self._submission
        if self._cancelled.is_set():
            return _ended_by_its_task()
        told = result.error() if isinstance(result, Failure) else None
        if told is not None and type(told) is not EngineError:
            return told
        # What a driver has no better word for may have a cause that its output tells.
        if (known := self._causes.error()) is not None:
            return known
        if told is not None:
            return told
        tail = "" if submission is None else without_stacks(submission.tail)[-_TAIL_CHARS:]
        return EngineError(
            f"spark-submit ended with status {status} without a result of the driver; landing files"
            " are kept, nothing was published; run the build again. The end of its output:\n"
            f"{tail}"
        )


def _ended_by_its_task() -> EngineError:
    return EngineError(
        "the Spark application was ended by its task; nothing was published; run it again"
    )


def _job(stage: Stage, shipment: Shipment) -> ApplicationJob:
    ref = stage.plan.ref()
    return ApplicationJob(
        dataset=ref.dataset,
        interval=ref.interval,
        plan_id=ref.plan_id,
        root=stage.env.root,
        landing=stage.env.landing,
        work=stage.env.work,
        logs=dict(stage.env.logs),
        package=digest_of_file(shipment.package),
        folder=digest_of_file(shipment.folder),
        **vars(FunctionPackages.of(stage.spec)),
        written=written_before(stage),
    )


def _kept(stage: Stage) -> tuple[list[RecordAccount], list[ShardEntry]] | None:
    """Return what an earlier attempt made, which gates refused; None if anything is missing."""
    shards = kept_shards(stage, stage.plan.all_shards())
    if shards is None:
        return None
    groups = range(len(stage.plan.preprocess))
    accounts = [kept_account(stage, group, alone=True) for group in groups]
    found = [account for account in accounts if account is not None]
    return (found, shards) if len(found) == len(accounts) else None


def _account(stage: Stage, group: int) -> RecordAccount:
    with closing(ArrowWithTrailer(stage.spill_file(group))) as spill:
        return RecordAccount.from_json(spill.trailer)


def _entries(stage: Stage) -> list[ShardEntry]:
    entries = []
    for shard in stage.plan.all_shards():
        with closing(ArrowWithTrailer(stage.part_file(shard))) as file:
            entries.append(ShardPart.from_json(file.trailer).entry)
    return entries


def _report(
    stage: Stage,
    accounts: list[RecordAccount],
    shards: list[ShardEntry],
    counts: ApplicationCounts,
    *,
    verdict: str = "built",
) -> SparkReport:
    ledger = RecordAccount.total(accounts).ledger.values()
    records = sum(part.read.records for part in ledger)
    in_place = [
        part.read.records
        for account in accounts
        for source, part in account.ledger.items()
        if not stage.lands(source)
    ]
    return SparkReport(
        verdict=verdict,
        source_reads=0 if verdict == "adopted" else sum(in_place),
        records=records,
        samples=sum(entry.samples for entry in shards),
        quarantined=sum(part.quarantined.records for part in ledger),
        filtered=sum(leaf.records for part in ledger for leaf in part.filtered.values()),
        groups=len(accounts),
        shards=len(shards),
        bytes=sum(entry.bytes for entry in shards),
        **vars(counts),
    )


def _told(report: SparkReport) -> str:
    return (
        f"built in {report.build_s:.1f} s: {report.groups} groups in {report.preprocess_s:.1f} s of"
        f" tasks, {report.shards} shards in {report.write_s:.1f} s of tasks,"
        f" {report.kept_shards} shards kept of an earlier attempt,"
        f" {report.failed_tasks} tasks failed and ran again, {report.shuffle_bytes} bytes shuffled,"
        f" {report.spilled_bytes} spilled"
    )
