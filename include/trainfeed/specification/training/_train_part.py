"""``train`` of a specification: the training's code, launcher, resources, and least result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, ValidationInfo, field_validator

from trainfeed.specification._spec_values import (
    Connection,
    Duration,
    EntryPoint,
    Name,
    Number,
    Part,
    Size,
    Text,
    WrongValueError,
)
from trainfeed.specification.training._model_part import ModelSpec
from trainfeed.specification.training._tracking_part import TrackingSpec
from trainfeed.specification.training._train_values import (
    DnsName,
    Image,
    LabelName,
    LabelValue,
    PlainText,
    Variable,
)

__all__ = [
    "GpuSpec",
    "LauncherName",
    "TolerationSpec",
    "TrainSpec",
    "TrainingWish",
    "train_contradictions",
]

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
