"""The part ``train`` of a specification: launch, model, gates, tracking."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from trainfeed.specification.values import (
    Connection,
    Duration,
    EntryPoint,
    FieldName,
    Name,
    Number,
    Part,
    Size,
    Text,
    WrongValueError,
    matching,
    pattern_schema,
)

# --- The texts of ``train``: image, names and labels of a cluster, variables of the ranks

_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
_DNS = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_DNS_RULE = "lower-case letters, digits and -, at most 63 characters"
_SUBDOMAIN = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?){0,8}"
_QUALIFIED = re.compile(rf"({_SUBDOMAIN}/)?[A-Za-z0-9]([A-Za-z0-9._-]{{0,61}}[A-Za-z0-9])?")
_IMAGE = re.compile(
    r"(?=.{1,400}$)([a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?/)?"
    r"[a-z0-9]+([._/-]+[a-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?"
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_RESERVED = re.compile(
    r"(TRAINFEED|KUBERNETES|PADDLE|PET|TRAINER|TRAINERS|JOB_COMPLETION)(_.*)?"
    r"|RANK|LOCAL_RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT|ENTRY|POD_IP"
    r"|PATH|PYTHONPATH|PYTHONHOME|LD_.*"
)
_MOST_CHARS: Final = 32 << 10


def _plain_text(text: str) -> str:
    if "\0" in text or len(text) > _MOST_CHARS:
        raise WrongValueError(f"a text of at most {_MOST_CHARS} characters without NUL")
    return text


def _variable(name: str) -> str:
    if _VARIABLE.fullmatch(name) is None:
        raise WrongValueError("a variable name (letters, digits and _, at most 128 characters)")
    if _RESERVED.fullmatch(name) is not None:
        raise WrongValueError("a variable that neither trainfeed nor a launcher sets", "rename it")
    return name


Image = Annotated[
    str,
    matching(_IMAGE, "an image, such as registry/trainer@sha256:… or registry/trainer:tag"),
    pattern_schema(_IMAGE),
]
DnsName = Annotated[str, matching(_DNS, f"a name ({_DNS_RULE})"), pattern_schema(_DNS)]
LabelName = Annotated[
    str,
    matching(_QUALIFIED, "a label name, with or without domain/ in front"),
    pattern_schema(_QUALIFIED),
]
LabelValue = Annotated[
    str,
    matching(_LABEL_VALUE, "a label value (letters, digits, '.', '_' and '-', at most 63)"),
    pattern_schema(_LABEL_VALUE),
]
Variable = Annotated[str, AfterValidator(_variable)]
PlainText = Annotated[str, AfterValidator(_plain_text)]


# --- ``train.model`` of a specification: the model's name, gate, promotion and transfers

# Folders of a data set. A data set of an earlier trainfeed may be called "models", so its folders
# may lie beside those of models.
_RESERVED_MODEL_NAMES: Final = frozenset({"boundaries", "code", "plans", "training", "versions"})


def _store_path(text: str) -> str:
    first, *parts = text.split("/")
    if first or any(part in {"", ".", ".."} for part in parts):
        raise WrongValueError("an absolute path without '//', '.', '..' and a last '/'")
    if not text.isprintable() or "\\" in text:
        raise WrongValueError("a path without control characters and backslashes")
    return text


class MetricGate(Part):
    """The limits of one metric of a model.

    Attributes:
        min: Smallest allowed value.
        max: Largest allowed value.
        better: Whether ``higher`` or ``lower`` values are better.
        max_worse: Largest allowed difference by which the value may be worse than that of the
            promoted model on the same data.
    """

    min: Number | None = None
    max: Number | None = None
    better: Literal["higher", "lower"] = "higher"
    max_worse: Annotated[Number, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _has_a_limit(self) -> MetricGate:
        if self.min is None and self.max is None and self.max_worse is None:
            raise WrongValueError("min, max or max_worse, got none of them", shows_got=False)
        if self.min is not None and self.max is not None and self.min > self.max:
            raise WrongValueError(
                f"min at most max, got {self.min} and {self.max}", shows_got=False
            )
        return self


class StoreFolderSpec(Part):
    """A folder of a store, for the transfer of models.

    Attributes:
        path: Absolute path; the path begins at the root of the connection.
        connection: Name of the connection that has the store: HDFS, or a mounted file system.
    """

    path: Annotated[str, AfterValidator(_store_path)]
    connection: Connection = "hdfs_default"


class ModelSpec(Part):
    """The model that a training makes, and the gate that it must pass to be promoted.

    Attributes:
        name: Name of the model's folder, ``models/<name>`` of the publication root.
        metrics: Limits of each metric, by its name.
        evaluate: ``module:name`` of a function in the data set's folder that returns the metrics
            of the model in ``job.model``; without it the metrics are those of the training.
        predict: ``module:name`` of a function in the data set's folder that opens a model's folder
            and returns the function that predicts; see ``trainfeed.prediction``.
        labels: Fields of the schema that are unknown when a prediction is made: the function that
            predicts never gets them.
        complete: ``module:name`` of a function that makes a record without labels one that the
            preprocessing function takes.
        promote: Promotion of a model that passes its gate to ``prod``: ``automatic`` at once,
            ``approve`` after a person approves it in Airflow, ``by_hand`` by command or form only.
        download: Folder of the model from which the training starts. It is downloaded before the
            training, and its content belongs to the job's identity.
        upload: Folder of models. The DAG of the training uploads each version that it promotes, or
            with ``promote: by_hand`` each candidate, to ``<path>/<name>/<version>``. A promotion or
            rollback by command or form uploads nothing.
    """

    name: Name
    metrics: Annotated[Mapping[Name, MetricGate], Field(min_length=1)]
    evaluate: EntryPoint | None = None
    predict: EntryPoint | None = None
    labels: tuple[FieldName, ...] = ()
    complete: EntryPoint | None = None
    promote: Literal["automatic", "approve", "by_hand"] = "automatic"
    download: StoreFolderSpec | None = None
    upload: StoreFolderSpec | None = None

    @model_validator(mode="after")
    def _has_a_predictor(self) -> ModelSpec:
        for name, value in (("labels", self.labels), ("complete", self.complete)):
            if value and self.predict is None:
                raise WrongValueError(f"predict beside {name}, got only {name}", shows_got=False)
        return self

    @field_validator("name")
    @classmethod
    def _is_no_folder_of_a_data_set(cls, name: str, _: ValidationInfo) -> str:
        if name in _RESERVED_MODEL_NAMES:
            raise WrongValueError("a name that is not reserved", "choose another")
        return name


# --- ``train.tracking`` of a specification: the tools that show the training's metrics


class TrackingSpec(Part):
    """The tools that get the metrics of the training, beside its metrics log.

    Attributes:
        tensorboard: Whether rank 0 writes event files of TensorBoard into the job's folder.
        mlflow: Id of the connection of an MLflow tracking server; by default there is none.
        experiment: Name of the experiment on that server; by default the name of the data set.
    """

    tensorboard: bool = False
    mlflow: Connection | None = None
    experiment: Annotated[Text, Field(max_length=200)] | None = None

    @field_validator("experiment")
    @classmethod
    def _has_a_server(cls, experiment: str | None, info: ValidationInfo) -> str | None:
        if experiment is not None and info.data.get("mlflow", "") is None:
            raise WrongValueError("a connection mlflow beside experiment", "name the connection")
        return experiment


# --- ``train`` of a specification: the training's code, launcher, resources, and least result

LauncherName: TypeAlias = Literal[
    "local", "indexed-job", "pytorch-job", "paddle-job", "train-job", "job-set"
]

_CLUSTER_ONLY: Final = (
    "image", "command", "allow_tag", "connection", "cpu", "memory", "gpu", "shared_memory",
    "volumes", "node_selector", "tolerations", "image_pull_secret", "queue", "priority",
    "time_limit", "retries",
)  # fmt: skip
# Fields that a TrainJob takes from its runtime, which the installation owns.
_NOT_OF_TRAIN_JOBS: Final = ("image_pull_secret", "priority", "time_limit", "retries")
# With an entry, ranks count their starts; a command is a program of the image, which does not.
_NO_COUNT_OF_RESTARTS: Final = ("pytorch-job", "paddle-job")

_TAG_REMEDY: Final = (
    "a tag may become another image: give the digest, or allow_tag: true, which records the job as"
    " unproven"
)
_NO_EVENTS: Final = (
    "its program does not call job.log_metrics: leave it out, and let the program write event files"
)


class TrainingWish(StrEnum):
    """The intervals of a build on which trainings start: each, the last one, or none."""

    EACH = "each"
    LAST = "last"
    NONE = "none"


class GpuSpec(Part):
    """The accelerators of one rank.

    Attributes:
        type: Name of the resource on the cluster.
        number: Number of accelerators of a rank.
    """

    type: LabelName = "nvidia.com/gpu"
    number: Annotated[int, Field(ge=1, le=64)] = 1


class TolerationSpec(Part):
    """A taint of machines that ranks may run on nevertheless.

    Attributes:
        key: Key of the taint.
        operator: ``Equal`` compares the value of the taint, ``Exists`` accepts every value.
        value: Value of the taint, for operator ``Equal``.
        effect: Effect of the taint; every effect by default.
    """

    key: LabelName
    operator: Literal["Equal", "Exists"] = "Equal"
    value: LabelValue | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None

    @field_validator("value")
    @classmethod
    def _fits_the_operator(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("operator") == "Exists":
            raise WrongValueError("no value beside operator Exists", "leave it out")
        return value


class TrainSpec(Part):
    """The training that follows a version.

    Attributes:
        entry: ``module:name`` of a function in the data set's folder.
        window: Number of intervals that a training reads: the published one and those before it.
        launcher: ``local`` runs the training as processes of this machine; every other value is a
            kind of job on a Kubernetes cluster.
        connection: Id of the cluster's connection.
        ranks: Number of processes.
        image: Container image of the ranks, by its digest; by default the image of the cluster's
            settings.
        command: Program of the image and its arguments, in the place of ``entry``.
        allow_tag: Whether ``image`` may have a tag in the place of a digest. The job is then
            recorded as one whose image is unproven.
        cpu: Number of processors of a rank, a fraction if need be.
        memory: Memory of a rank.
        gpu: Accelerators of a rank.
        shared_memory: Size of ``/dev/shm`` of a rank, which counts as its memory.
        environment: Variables of the ranks, name to text.
        volumes: Names of volumes that the installation allows.
        node_selector: Labels of the machines that ranks may run on.
        tolerations: Taints of machines that ranks may run on nevertheless.
        image_pull_secret: Name of the cluster's secret with which the image is pulled.
        queue: Name of the Kueue queue that admits the job.
        priority: Name of a priority class of the cluster.
        time_limit: Time after which the cluster ends the job.
        retries: Largest number of restarts after a rank was ended from outside; a rank whose own
            code failed is not restarted.
        metric: The metric that ``min`` bounds.
        min: Smallest value of ``metric`` with which the training counts as successful.
        wait: Longest time that a training waits for the intervals of the window to be published.
        model: The model that the training makes, with its gate, if any.
        tracking: The tools that get the metrics of the training, if any.
    """

    entry: EntryPoint | None = None
    window: Annotated[int, Field(ge=1, le=10_000)] = 1
    launcher: LauncherName = "local"
    connection: Connection = "kubernetes_default"
    ranks: Annotated[int, Field(ge=1, le=1024)] = 1
    image: Image | None = None
    command: Annotated[tuple[Annotated[PlainText, Text], ...], Field(min_length=1)] | None = None
    allow_tag: bool = False
    cpu: Annotated[Number, Field(gt=0, le=1024)] | None = None
    memory: Annotated[Size, Field(ge=1 << 20)] | None = None
    gpu: GpuSpec | None = None
    shared_memory: Annotated[Size, Field(ge=1 << 20)] | None = None
    environment: Mapping[Variable, PlainText] = Field(default_factory=dict)
    volumes: tuple[DnsName, ...] = ()
    node_selector: Mapping[LabelName, LabelValue] = Field(default_factory=dict)
    tolerations: tuple[TolerationSpec, ...] = ()
    image_pull_secret: DnsName | None = None
    queue: DnsName | None = None
    priority: DnsName | None = None
    time_limit: Annotated[Duration, Field(gt=timedelta(0))] | None = None
    retries: Annotated[int, Field(ge=0, le=10)] = 0
    metric: Name | None = None
    min: Number | None = None
    wait: Duration = timedelta(days=1)
    model: ModelSpec | None = None
    tracking: TrackingSpec = Field(default_factory=TrackingSpec)

    @property
    def is_local(self) -> bool:
        """Whether ranks are processes of this machine."""
        return self.launcher == "local"

    @property
    def stores(self) -> tuple[str, ...]:
        """Names of the connections from and to which models are transferred, sorted."""
        model = self.model
        folders = () if model is None else (model.download, model.upload)
        return tuple(sorted({folder.connection for folder in folders if folder is not None}))

    @property
    def module(self) -> str | None:
        """Name of the module of ``entry``, without ``.py``."""
        return None if self.entry is None else self.entry.partition(":")[0]

    @property
    def function_name(self) -> str | None:
        """Name of the function in its module."""
        return None if self.entry is None else self.entry.partition(":")[2]

    @field_validator("min")
    @classmethod
    def _has_a_metric(cls, least: float | None, info: ValidationInfo) -> float | None:
        if least is not None and info.data.get("metric", "") is None:
            raise WrongValueError("a metric beside min", "say which metric this bounds")
        return least


def train_contradictions(train: TrainSpec) -> Iterator[tuple[str, str]]:
    """Yield the name of a field, or "", and an error text for each contradiction in ``train``."""
    if train.is_local:
        yield from _unfit(train, _CLUSTER_ONLY)
        if train.entry is None:
            yield "", "expected entry, got none; add it: the function of the data set that trains"
        return
    if train.launcher == "train-job":
        yield from _unfit(train, _NOT_OF_TRAIN_JOBS)
    if (train.entry is None) == (train.command is None):
        got = "neither" if train.entry is None else "both"
        yield "", f"expected one of entry and command, got {got}"
    if train.command is not None and train.tracking.tensorboard:
        yield "tracking", f"expected no tensorboard beside command; {_NO_EVENTS}"
    if train.command is not None and train.image is None:
        yield "command", "expected an image beside command, got none; add image"
    if train.command is not None and train.retries and train.time_limit is None:
        yield from _restarts_without_end(train)
    if train.command is not None and train.model is not None and train.model.download is not None:
        yield (
            "model",
            (
                "expected no download beside command, whose program does not learn the folder of"
                " the model; use entry, or let the program copy its model"
            ),
        )
    if train.image is not None and "@sha256:" not in train.image and not train.allow_tag:
        text = f"expected an image by its digest, name@sha256:…, got {train.image!r}; {_TAG_REMEDY}"
        yield "image", text


def _restarts_without_end(train: TrainSpec) -> Iterator[tuple[str, str]]:
    if train.launcher in _NO_COUNT_OF_RESTARTS:
        yield (
            "retries",
            (
                "expected a time_limit beside retries and command, got none: the operator of"
                f" launcher {train.launcher} starts a command again after every signal and counts"
                " no restarts; add time_limit, or leave retries out"
            ),
        )


def _unfit(train: TrainSpec, names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for name in names:
        if name in train.model_fields_set:
            text = f"expected no {name} beside launcher {train.launcher}; leave one out"
            yield name, text
