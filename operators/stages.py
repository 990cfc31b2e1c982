"""The stages of a build as operators, from the plan of an interval to its published version."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, cast

from airflow.sdk import BaseOperator, XComArg
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from operators.connections import datasets_folder, environment_from_connections
from operators.links import TrainingRunsLink, VersionLink
from operators.outcome import airflow_outcome, call_again
from operators.runs import require_known, run_interval, run_person, window_request
from operators.training_starts import Trainings, hand_over
from trainfeed.errors import (
    GateError,
    IngestError,
    Outcome,
    TrainFeedError,
    TransactionOpenError,
    WindowOpenError,
)
from trainfeed.specification import catalogs_of, load_spec, registries_of

if TYPE_CHECKING:
    from airflow.sdk import BaseOperatorLink, Context

    from trainfeed.core.config import Environment
    from trainfeed.core.intervals import Interval, WindowRequest
    from trainfeed.pipeline import (
        Build,
        JsonObject,
        PlanReport,
        PublishReport,
        SkipReport,
        StageReport,
        VersionSummary,
    )
    from trainfeed.pipeline.preview import DryRun
    from trainfeed.specification import DatasetSpec


# --- The base of the operators of a build: they read the plan and call one stage

ResultT = TypeVar("ResultT")


def open_dataset(
    name: str, *, trains: bool = False, transfers: bool = False, tracks: bool = False
) -> tuple[DatasetSpec, Environment]:
    """Return the specification of a data set, and the environment of its tasks.

    Args:
        name: Name of the data set.
        trains: Whether the task launches a training, so that it needs the training's cluster.
        transfers: Whether the task transfers models, so that it needs the stores of the training.
        tracks: Whether the task needs the training's tracking server.

    Raises:
        SpecError: The specification is wrong.
        ConfigError: A connection is missing or incomplete.
    """
    spec = load_spec(datasets_folder() / name)
    kinds = [source.kind for source in spec.all_sources]
    train = spec.train
    clusters = [train.connection] if trains and train is not None and not train.is_local else []
    stores = train.stores if transfers and train is not None else ()
    server = train.tracking.mlflow if tracks and train is not None else None
    trackers = [] if server is None else [server]
    return spec, environment_from_connections(
        {cluster for kind in kinds for cluster in kind.clusters},
        sorted({connection for kind in kinds for connection in kind.file_systems}),
        clusters,
        stores,
        trackers,
        sorted({registry for kind in kinds for registry in registries_of(kind)}),
        sorted({catalog for source in spec.all_parts for catalog in catalogs_of(source)}),
    )


class DatasetOperator(BaseOperator):
    """A task of one data set.

    Args:
        dataset: Name of the data set.
    """

    def __init__(self, *, dataset: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dataset = dataset


class StageOperator(DatasetOperator):
    """One stage of a build, as one task.

    The task can run again safely: a stage looks for its result before it works.

    Args:
        plan: The report of the task ``plan`` (its XCom).
    """

    template_fields: Sequence[str] = ("plan",)
    stage: ClassVar[str]

    def __init__(self, *, plan: object, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan = plan

    def execute(self, context: Context) -> JsonObject:
        """Run the stage and return its report: small JSON."""
        return self.built(context, self.planned(context), self.run_stage).to_json()

    def planned(self, context: Context) -> PlanReport:
        """Read the report of the task ``plan``.

        Raises:
            AirflowSkipException: There is nothing to build. This happens when a task is cleared
                that Airflow had skipped before.
        """
        from trainfeed.pipeline import SkipReport, plan_report_from_json

        found = cast("Mapping[str, object]", self.plan)
        if found.get("dry_run"):
            raise AirflowSkipException("dry run: what would be done is in the log of the task plan")
        with airflow_outcome(context):
            report = plan_report_from_json(found)
        if isinstance(report, SkipReport):
            raise AirflowSkipException(report.note)
        return report

    def built(
        self, context: Context, planned: PlanReport, stage: Callable[[Build], ResultT]
    ) -> ResultT:
        """Return the result of ``stage`` for the planned build."""
        from trainfeed.pipeline import Build
        from trainfeed.pipeline.build_attempts import build_attempt

        with airflow_outcome(context):
            build = Build(*open_dataset(self.dataset), planned.ref)
            # A published version is not built again, so there is no attempt to mark.
            with nullcontext() if planned.is_published else build_attempt(build, self.work):
                return stage(build)

    @property
    def work(self) -> str:
        """Name of the task's work on the plan, fit for a file name."""
        return self.stage

    @abstractmethod
    def run_stage(self, build: Build) -> StageReport:
        """Call the stage."""


class UnitOperator(StageOperator):
    """One unit of a stage that is mapped over the units of the plan.

    All mapped stages of a run have the same number of tasks, because all are mapped over the one
    output of ``plan``. In a stage with fewer units, the surplus tasks do nothing.

    Args:
        unit: Number of the unit, from 0.
    """

    def __init__(self, *, unit: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.unit = unit

    @property
    def work(self) -> str:
        """The stage and the number of the unit."""
        return f"{self.stage}-{self.unit}"

    def execute(self, context: Context) -> JsonObject:
        """Run the unit and return its report; the verdict is ``idle`` if there is no such unit."""
        planned = self.planned(context)
        if self.unit >= planned.tasks[self.stage]:
            return {"stage": self.stage, "unit": self.unit, "verdict": "idle", "source_reads": 0}
        return self.built(context, planned, self.run_stage).to_json()


# --- Staged shards → proof of completeness and quality

# The verdict of a build that only gates with the severity ``ask`` stop.
ASKS: Final = "asks"


class CheckOperator(StageOperator):
    """Recompute the ledger from the written files, and evaluate the quality gates.

    Args:
        asks: Whether a task follows that asks a person about gates with the severity ``ask``. With
            it, this task succeeds if only such gates stop the build; its verdict is then ``asks``.
    """

    stage: ClassVar = "check"

    def __init__(self, *, asks: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.asks = asks

    def execute(self, context: Context) -> JsonObject:
        """Run the stage and return its report; for gates that ask, their message and report."""
        if not self.asks:
            return super().execute(context)
        return self.built(context, self.planned(context), check_or_ask)

    def run_stage(self, build: Build) -> StageReport:
        """Check the staged version."""
        from trainfeed.pipeline.check import check

        return check(build)


def check_or_ask(build: Build) -> JsonObject:
    """Check the staged version; return the report, or what to ask a person.

    Returns:
        The report of the stage; or, with the verdict ``asks``: ``message``, ``report``, and
        ``question``, the gates that ask with limits and values, and the digest of the plan.

    Raises:
        GateError: The ledgers differ, or a gate that blocks failed.
    """
    from trainfeed.pipeline.check import check

    try:
        return check(build).to_json()
    except GateError as error:
        if error.question is None:
            raise
        found = {"report": dict(error.report or {}), "question": dict(error.question)}
        return {"stage": "check", "verdict": ASKS, "message": str(error), **found}


# --- Planned offset ranges of Kafka topics → landing files on HDFS


class KafkaToHdfsOperator(UnitOperator):
    """Land the offset ranges of one unit; complete landing files are adopted, not read again."""

    stage: ClassVar = "ingest"

    def run_stage(self, build: Build) -> StageReport:
        """Land the unit."""
        from trainfeed.pipeline.ingest import ingest

        return ingest(build, self.unit)


# --- Landing files → samples in order, and quarantine


class PreprocessOperator(UnitOperator):
    """Run the data set's function over the records of one unit."""

    stage: ClassVar = "preprocess"

    def run_stage(self, build: Build) -> StageReport:
        """Preprocess the unit."""
        from trainfeed.pipeline.workers.pool import start_workers

        # The workers start while this process still imports modules.
        with_keys = build.env.uses_object_stores
        start_workers(build.spec.resources.processes, with_keys=with_keys)
        from trainfeed.pipeline.preprocess import preprocess

        return preprocess(build, self.unit)


# --- Samples in order → RecordIO shards in the run's staging folder


class SamplesToRecordIOOperator(UnitOperator):
    """Write the shards of one unit."""

    stage: ClassVar = "convert"

    def run_stage(self, build: Build) -> StageReport:
        """Write the unit's shards."""
        from trainfeed.pipeline.convert import convert

        return convert(build, self.unit)


# --- Interval of a run → plan: inputs and outputs, fixed before anything is read

logger = logging.getLogger(__name__)

# The values of the parameter ``outdated``; those of ``trainfeed.pipeline.OutdatedRule``.
OUTDATED_RULES: Final = ("fail", "keep", "rebuild")

_PLAN_KEY: Final = "plan"
_PARAMETERS: Final = ("window_start", "dry_run", "rebuild", "outdated", "replay", "allow_gap")
_REASONS: Final = ("rebuild", "allow_gap")
_OF_TRAININGS: Final = ("training", "catch_up")
_OF_FUNCTIONS: Final = ("parameters", "parameters_why")
# A waiting run notices within this time if the settle time in the specification becomes shorter.
_LONGEST_WAIT: Final = timedelta(minutes=10)
_SHORTEST_WAIT: Final = timedelta(seconds=5)


class PlanIntervalOperator(DatasetOperator):
    """Plan the interval of the run.

    In runs of the schedule and of backfills the task waits, without a worker slot, until the
    interval has ended and settled. In triggered runs it fails instead, because a person is waiting.
    The same applies while an open transaction may hide records, but not longer than the topics'
    ``transaction_wait``. A run of the schedule also waits, until the ``wait`` of the specification
    ends, for a topic without a record of the interval, for a source that does not answer, and for
    uploads of an inner join; runs of backfills fail instead, because a waiting run would keep the
    others of the backfill from starting.

    If the specification skips the interval, this task and all later ones are skipped with the
    reason: there is no version and no event.

    If the interval is published and outdated, the parameter ``outdated`` decides: the task fails;
    or it keeps the version, and all later tasks find it published; or it plans the next generation.

    With the parameter ``replay`` the interval is planned from its last build, without the source,
    if that build quarantined records; if it did not, this task and all later ones are skipped.

    With the parameter ``dry_run`` the task reports what a build would do (log, and XCom ``plan``)
    and returns nothing to map over, so that Airflow skips the later stages.

    Args:
        trains: Whether a training follows, so that runs have the parameters ``training`` and
            ``catch_up``.
        chooses: Whether the function has parameters, so that runs have the parameters
            ``parameters`` and ``parameters_why``.

    Returns:
        The numbers 0, 1, … of the units, for the mapped stages to map over: as many as the stage
        with most units has. The report of the plan is the XCom ``plan``.
    """

    def __init__(self, *, trains: bool = False, chooses: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.trains = trains
        self.chooses = chooses

    @property
    def plan(self) -> XComArg:
        """The XCom with the report of the plan: argument of all later stages."""
        return XComArg(self, _PLAN_KEY)

    def execute(self, context: Context) -> list[int]:
        """Plan, or ask to be called again when the interval has settled."""
        from trainfeed.pipeline import PlanReport, SkipReport

        request = window_request(context)
        with airflow_outcome(context):
            of_functions = _OF_FUNCTIONS if self.chooses else ()
            further = _OF_TRAININGS if self.trains else ()
            require_known(context["params"], *_PARAMETERS, *of_functions, *further)
            try:
                planned = self._plan(request, context)
            except WindowOpenError as error:
                raise _later(error, request, context, datetime.now(UTC)) from error
            except IngestError as error:
                at = self._asks_again(request, datetime.now(UTC))
                if at is None or error.outcome is not Outcome.RETRY:
                    raise
                logger.warning("%s; looking again at %s", error, at)
                raise call_again(at) from error
        if not isinstance(planned, PlanReport | SkipReport):
            context["ti"].xcom_push(key=_PLAN_KEY, value=_dry_run(planned))
            return []
        context["ti"].xcom_push(key=_PLAN_KEY, value=planned.to_json())
        if isinstance(planned, SkipReport):
            with airflow_outcome(context):
                self._hand_over(planned.interval, context)
            raise AirflowSkipException(planned.note)
        return list(range(max(planned.tasks.values())))

    def _asks_again(self, request: WindowRequest, now: datetime) -> datetime | None:
        """Return when a run looks again at a source that does not answer; None if it fails now."""
        from trainfeed.core.intervals import ready_at

        spec, _ = open_dataset(self.dataset)
        interval = run_interval(spec, request)
        spec = spec.for_interval(interval.start)
        until = ready_at(interval, spec.source.kind.settle) + spec.wait
        if not request.is_scheduled or now >= until:
            return None
        return min(until, now + _LONGEST_WAIT)

    def _hand_over(self, interval: str, context: Context) -> None:
        """Hand the wish ``training: last`` of a skipped interval over to the interval before."""
        from trainfeed.versions import DatasetFolder

        if not self.trains:
            return
        spec, env = open_dataset(self.dataset)
        version = hand_over(spec, DatasetFolder(Path(env.root), spec.name), interval, context)
        if version is not None:
            logger.warning(
                "training: last, and %s is left out: %s counts as untrained; the next run of"
                " build.%s starts its training, and so does trainfeed train %s --catch-up missed",
                interval, version.interval, spec.name, spec.name,
            )  # fmt: skip

    def _plan(self, request: WindowRequest, context: Context) -> PlanReport | SkipReport | DryRun:
        from trainfeed.pipeline import OutdatedRule
        from trainfeed.pipeline.plan import plan
        from trainfeed.pipeline.preview import dry_run

        params = context["params"]
        spec, env = open_dataset(self.dataset)
        interval = run_interval(spec, request)
        if params.get("parameters"):
            _choose_parameters(spec, env, interval, context)
        rebuild, allow_gap = (cast("str | None", params.get(name)) for name in _REASONS)
        outdated = OutdatedRule(str(params["outdated"]))
        make = dry_run if params.get("dry_run") else plan
        if params.get("replay"):
            _require_only_replay(params)
            make = partial(plan, replay=True)
        return make(spec, interval, env, rebuild=rebuild, allow_gap=allow_gap, outdated=outdated)


def _choose_parameters(
    spec: DatasetSpec, env: Environment, interval: Interval, context: Context
) -> None:
    """Record the parameters of the form for the interval, in the name of the user; once per run.

    Raises:
        ConfigError: There is no reason, the run is a dry run, or a value does not fit dataset.yaml.
    """
    from trainfeed.core.accounts import Decision
    from trainfeed.errors import ConfigError
    from trainfeed.pipeline.parameters import choose_parameters, parse_parameters
    from trainfeed.versions import DatasetFolder

    params = context["params"]
    if params.get("dry_run"):
        raise ConfigError(
            "expected parameters or dry_run, got both: parameters are a decision, and a dry run"
            " writes none; see what it would be: trainfeed parameters"
            f" {spec.name}/{interval.name} NAME=VALUE --dry-run"
        )
    why = params.get("parameters_why") or params.get("rebuild")
    if why is None:
        raise ConfigError(
            "expected a reason for parameters, got none; nothing was changed; fill in 'Parameters:"
            " why'"
        )
    decision = Decision.now(str(why), **run_person(context)._asdict())
    given = parse_parameters(str(params["parameters"]).splitlines())
    folder = DatasetFolder(Path(env.root), spec.name)
    chosen = choose_parameters(spec, folder, interval.name, given, decision)
    told = "the values of dataset.yaml" if chosen.override is None else chosen.override.told
    logger.info("%s/%s is built with %s", spec.name, interval.name, told)


def _require_only_replay(params: Mapping[str, object]) -> None:
    from trainfeed.errors import ConfigError

    if params.get("dry_run"):
        raise ConfigError(
            "expected replay or dry_run, got both; nothing was read or written; trainfeed"
            " quarantine preview says what a replay would change"
        )


def _dry_run(found: DryRun) -> JsonObject:
    """Return the XCom of a dry run for the page of the run, and log its lines."""
    from trainfeed.pipeline.preview import describe

    lines = describe(found)
    for line in lines:
        logger.info("%s", line)
    return {**found.to_json(), "lines": lines}


def _later(
    error: WindowOpenError, request: WindowRequest, context: Context, now: datetime
) -> Exception:
    """Return the exception by which Airflow calls the task again, or fails it."""
    if not (request.is_scheduled or request.is_backfill):
        return AirflowFailException(str(error))
    if error.until is not None and request.is_backfill:
        return AirflowFailException(
            f"{error}; runs of a backfill do not wait, they would keep others from starting: start"
            " the backfill once more later, with the runs that failed (--reprocess-behavior failed)"
        )
    if isinstance(error, TransactionOpenError) and now >= _deadline(error, context):
        return AirflowFailException(
            f"{error}; they were expected to end within {error.wait} (transaction_wait in"
            " dataset.yaml), so this run waits no longer; clear this task when the transactions"
            " have ended"
        )
    ready_at = error.ready_at or error.until or now + _LONGEST_WAIT
    logger.info("%s; looking again then, or in %s", error, _LONGEST_WAIT)
    return call_again(min(max(ready_at, now + _SHORTEST_WAIT), now + _LONGEST_WAIT))


def _deadline(error: TransactionOpenError, context: Context) -> datetime:
    """Return the time until which the run waits for open transactions."""
    run = context["dag_run"]
    started = run.start_date or run.run_after
    # The wait for the interval to end and settle does not count.
    return max(started, error.since or started) + error.wait


# --- Staged RecordIO shards → published version on CephFS, and its asset event

VERSION_KEY: Final = "version_report"
_EVENT_EXTRA: Final = ("generation", "manifest_sha256", "content_digest", "fingerprint", "samples")


class RecordIOToCephFSOperator(StageOperator):
    """Publish the checked version and emit an event of the asset in ``outlets``.

    The event has the interval's name as partition key. It is emitted also if the version was
    published before: an earlier attempt may have died between publication and event. Published
    intervals that no training has seen get an event, too; see ``operators.training_starts``. A
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
        _show_version(context, version.dataset, path)
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
        from trainfeed.versions import DatasetFolder
        from trainfeed.versions.layout import parse_generation

        report = self.run_stage(build)
        folder = DatasetFolder(Path(build.env.root), build.ref.dataset)
        generation = parse_generation(report.summary.generation)
        return report, folder.version(build.ref.interval, generation)


def _show_version(context: Context, dataset: str, path: Path) -> None:
    """Push the report for the page of the run; a failure is only logged."""
    from trainfeed.pipeline.version import version_report
    from trainfeed.versions import DatasetFolder, Version

    try:
        # <root>/<data set>/versions/<interval>/<generation>
        folder = DatasetFolder(path.parents[3], dataset)
        context["ti"].xcom_push(key=VERSION_KEY, value=version_report(Version.open(path), folder))
    except TrainFeedError as error:
        logger.warning("the page of the run will not have the version: %s", error)
