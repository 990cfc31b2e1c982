"""Staged RecordIO shards → published version on CephFS, and its asset event."""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from operators._outcome import airflow_outcome
from operators._stage import StageOperator, open_dataset
from operators.links import TrainingRunsLink, VersionLink
from operators.trainings.catch_up import Trainings
from trainfeed.errors import TrainFeedError

if TYPE_CHECKING:
    from airflow.sdk import BaseOperatorLink, Context

    from trainfeed.pipeline import Build, JsonObject, PlanReport, PublishReport, VersionSummary

__all__ = ["VERSION_KEY", "RecordIOToCephFSOperator"]

logger = logging.getLogger(__name__)

VERSION_KEY: Final = "version_report"
_EVENT_EXTRA: Final = ("generation", "manifest_sha256", "content_digest", "fingerprint", "samples")


class RecordIOToCephFSOperator(StageOperator):
    """Publish the checked version and emit an event of the asset in ``outlets``.

    The event has the interval's name as partition key. It is emitted also if the version was
    published before: an earlier attempt may have died between publication and event. Published
    intervals that no training has seen get an event, too; see ``operators.trainings.catch_up``. A
    run that wants no training (parameter ``training``) emits no event.

    Args:
        training_dag_id: DAG that the event starts, or None; the task has a link to its runs, and in
            any case one to the version.

    Returns:
        The stage's report, ``path`` of the version, ``note`` of the plan if there is one, and
        ``training``: the report about the events.
    """

    stage: ClassVar = "publish"
    operator_extra_links: Collection[BaseOperatorLink] = (VersionLink(),)

    def __init__(self, *, training_dag_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.training_dag_id = training_dag_id
        if training_dag_id is not None:
            self.operator_extra_links = (VersionLink(), TrainingRunsLink())

    def execute(self, context: Context) -> JsonObject:
        """Publish, emit the event, and return the report."""
        planned = self.planned(context)
        declined = self._declined(context, planned)
        published, path = self.built(context, planned, self._placed)
        if declined is not None:
            declined = self._declined(context, planned)
        version = published.summary
        report = {**published.to_json(), "path": str(path)}
        if planned.is_published:
            report["verdict"] = planned.verdict
        if planned.note is not None:
            report["note"] = planned.note
        _tell(context, version.dataset, path)
        if declined is not None:
            # Airflow sends an event for every outlet that a task has when it succeeds.
            self.outlets.clear()
            return {**report, "training": declined}
        extra = {key: getattr(version, key) for key in _EVENT_EXTRA}
        generations = {version.interval: version.generation}
        if self.training_dag_id is not None:
            report["training"], others = self._catch_up(context, version)
            generations |= others
        for asset in self.outlets:
            event = context["outlet_events"][asset]
            event.add_partitions(list(generations))
            # All events of a task have the same extra, so facts about one version go only into a
            # single event.
            event.extra = extra if len(generations) == 1 else {"generations": {**generations}}
        return report

    def _declined(self, context: Context, planned: PlanReport) -> JsonObject | None:
        """Return what is reported when the run wants no training of its interval."""
        if self.training_dag_id is None:
            return None
        with airflow_outcome(context):
            trainings = self._trainings(context)
            return trainings.decline(planned.ref.interval, planned.generation)

    def _catch_up(
        self, context: Context, version: VersionSummary
    ) -> tuple[JsonObject, dict[str, str]]:
        """Return the report about trainings, and interval → generation of further events."""
        with airflow_outcome(context):
            return self._trainings(context).announce(version.interval, version.generation)

    def _trainings(self, context: Context) -> Trainings:
        spec, env = open_dataset(self.dataset)
        return Trainings(spec, env, str(self.training_dag_id), context)

    def run_stage(self, build: Build) -> PublishReport:
        """Publish the version."""
        from trainfeed.pipeline.publish import publish

        return publish(build)

    def _placed(self, build: Build) -> tuple[PublishReport, Path]:
        """Publish the version; return the report, and the folder of the version."""
        from trainfeed.dataset import DatasetFolder
        from trainfeed.dataset.layout import parse_generation

        report = self.run_stage(build)
        folder = DatasetFolder(Path(build.env.root), build.ref.dataset)
        generation = parse_generation(report.summary.generation)
        return report, folder.version(build.ref.interval, generation)


def _tell(context: Context, dataset: str, path: Path) -> None:
    """Push the report for the page of the run; a failure is only logged."""
    from trainfeed.dataset import DatasetFolder, Version
    from trainfeed.pipeline.version import version_report

    try:
        # <root>/<data set>/versions/<interval>/<generation>
        folder = DatasetFolder(path.parents[3], dataset)
        context["ti"].xcom_push(key=VERSION_KEY, value=version_report(Version.open(path), folder))
    except TrainFeedError as error:
        logger.warning("the page of the run will not have the version: %s", error)
