"""A classifier: a network, its head, its optimizer, and one step of their training by ranks."""

from __future__ import annotations

import math
import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.compat._framework import paddle
from trainfeed.compat.paddle.fluid.initializer import Uniform, Xavier
from trainfeed.compat.paddle.fluid.network import Network
from trainfeed.compat.paddle.fluid.optimizer import Momentum, Optimizer
from trainfeed.compat.paddle.fluid.param_attr import framework_attributes
from trainfeed.compat.paddle.fluid.regularizer import L2Decay
from trainfeed.compat.plsc.models.base_model import BaseModel, require_network
from trainfeed.compat.plsc.models.resnet import ResNet50
from trainfeed.core.config import name_rank, rank_variables
from trainfeed.errors import ConfigError, JobKilledError, SampleShapeError

if TYPE_CHECKING:
    from trainfeed.compat.plsc.entry_readers import ImageBatch
    from trainfeed.compat.plsc.settings import EntrySettings


# --- The ranks of a training: sums, maxima and rows of all of them, over gloo

_ENDPOINTS: Final = ("PADDLE_TRAINER_ENDPOINTS", "PADDLE_CURRENT_ENDPOINT")


@dataclass(frozen=True)
class Ranks:
    """The ranks that train together.

    Attributes:
        rank: Number of this process, from 0.
        world_size: Number of processes.
    """

    rank: int
    world_size: int

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which writes what all ranks have in common."""
        return self.rank == 0

    def connect(self) -> None:
        """Connect the ranks, unless there is one or they are connected.

        Raises:
            ConfigError: The ranks were not started by Paddle's launcher.
        """
        distributed = paddle().distributed
        if self.world_size == 1 or distributed.is_initialized():
            return
        if missing := sorted(set(_ENDPOINTS) - set(rank_variables(_ENDPOINTS))):
            raise ConfigError(
                f"expected the addresses of {self.world_size} ranks in the environment, got no"
                f" {' and no '.join(missing)}; nothing was trained; start the ranks by python -m"
                " paddle.distributed.launch --backend gloo --nproc_per_node N"
            )
        name_rank({"PADDLE_DISTRI_BACKEND": "gloo"})
        with self._all_there():
            distributed.init_parallel_env()

    def sum(self, values: Any) -> Any:
        """Return the sums of a tensor over the ranks; the tensor has one shape on all of them."""
        return self._reduced(values, "SUM")

    def max(self, values: Any) -> Any:
        """Return the maxima of a tensor over the ranks."""
        return self._reduced(values, "MAX")

    def counts(self, number: int) -> list[int]:
        """Return a number of each rank, in the order of the ranks."""
        if self.world_size == 1:
            return [number]
        own = paddle().zeros([self.world_size], "int64")
        own[self.rank] = number
        return [int(each) for each in self.sum(own).numpy()]

    def gather(self, rows: Any, counts: Sequence[int]) -> Any:
        """Return the rows of all ranks below each other.

        Args:
            rows: Tensor of shape ``(counts[rank], …)``.
            counts: Number of rows of each rank.
        """
        if self.world_size == 1:
            return rows
        parts = [self.broadcast(rows, source, n) for source, n in enumerate(counts) if n]
        return paddle().concat(parts)

    def broadcast(self, rows: Any, source: int, count: int) -> Any:
        """Return ``count`` rows of the rank ``source``; ``rows`` gives dtype and other sizes."""
        if self.world_size == 1:
            return rows
        given = source == self.rank
        sent = rows if given else paddle().zeros([count, *rows.shape[1:]], rows.dtype)
        with self._all_there():
            paddle().distributed.broadcast(sent, src=source)
        return sent

    def first_row(self, counts: Sequence[int]) -> int:
        """Return the row at which those of this rank begin in what ``gather`` returns."""
        return sum(counts[: self.rank])

    def shared_name(self) -> str:
        """Return 32 hexadecimal digits, drawn by rank 0."""
        drawn = uuid.uuid4().hex
        if self.world_size == 1:
            return drawn
        digits = paddle().to_tensor([int(digit, 16) for digit in drawn], dtype="int64")
        return "".join(f"{int(digit):x}" for digit in self.broadcast(digits, 0, 32).numpy())

    def wait(self) -> None:
        """Wait until all ranks have come here."""
        self.counts(0)

    def _reduced(self, values: Any, operation: str) -> Any:
        if self.world_size > 1:
            values = values.clone()
            distributed = paddle().distributed
            with self._all_there():
                distributed.all_reduce(values, op=getattr(distributed.ReduceOp, operation))
        return values

    @contextmanager
    def _all_there(self) -> Iterator[None]:
        try:
            yield
        except (RuntimeError, OSError) as error:
            # gloo names its own source file, and the port of a rank, not which rank ended.
            raise JobKilledError(
                f"expected all {self.world_size} ranks to come to the same step, got a lost"
                f" connection on rank {self.rank}: {str(error).strip().splitlines()[-1]}; the"
                " checkpoints of whole passes are kept; the log of the rank that ended first says"
                " why; start all ranks again with set_checkpoint_dir(model_save_dir)"
            ) from error


# --- The learning rate of a step: warm-up, then a rate that falls at given steps


def steps_per_pass(settings: EntrySettings) -> int:
    """Return the steps of a pass over ``train_image_num`` images, rounded up on each rank."""
    images_of_rank = -(-settings.train_image_num // settings.world_size)
    return -(-images_of_rank // settings.train_batch_size)


def learning_rate(settings: EntrySettings, step: int) -> float:
    """Return the learning rate of a step, counted from 0 over all passes."""
    warmup = settings.warmup_epochs * steps_per_pass(settings)
    if step < warmup:
        return settings.base_lr * (step + 1) / warmup
    return settings.base_lr * settings.lr_decay_factor ** bisect_right(settings.lr_steps, step)


# --- The optimizer of a training: made when the parameters are there


def made_optimizer(settings: EntrySettings, parameters: list[Any]) -> Any:
    """Return Paddle's optimizer: that of the settings, or momentum with decay of the weights."""
    given = settings.optimizer
    if given is None:
        given = Momentum(settings.base_lr, 0.9, regularization=L2Decay(5e-4))
    return given.made(parameters) if isinstance(given, Optimizer) else given(parameters)


def advance_scheduler(optimizer: Any) -> None:
    """Let the user's scheduler, if there is one, go to the next step."""
    schedule = getattr(optimizer, "_learning_rate", None)
    if isinstance(schedule, paddle().optimizer.lr.LRScheduler):
        schedule.step()


# --- Heads: from embeddings to logits of classes and a loss, softmax or ArcFace, whole or divided

# The derivative of the angle has no value at cosines of exactly 1 and -1.
_MAX_COSINE: Final = 1.0 - 1e-6


@dataclass(frozen=True)
class Head:
    """The last layer of a classifier, on one rank.

    Attributes:
        ranks: The ranks.
        is_arcface: Whether logits are scaled cosines with a margin.
        is_divided: Whether each rank holds a part of the classes.
        num_classes: Number of classes of all ranks.
        first: Number of the first class of this rank.
        margin: Margin of ArcFace in radians.
        scale: Factor of ArcFace's cosines.
        parameters: Name → parameter: a column for each class of this rank.
    """

    ranks: Ranks
    is_arcface: bool
    is_divided: bool
    num_classes: int
    first: int
    margin: float
    scale: float
    parameters: dict[str, Any]

    @property
    def classes(self) -> tuple[int, int]:
        """The first class of this rank, and the class after its last."""
        return self.first, self.first + self.parameters["final_fc.w_0"].shape[-1]

    @classmethod
    def made(cls, settings: EntrySettings, ranks: Ranks, emb_dim: int) -> Head:
        """Make a head; a divided one has the columns that the whole one would have.

        Raises:
            ConfigError: There are fewer classes than ranks.
        """
        kind, num_classes = settings.loss_type, settings.num_classes
        divided = kind.is_divided
        first, end = class_range(num_classes, ranks) if divided else (0, num_classes)
        arcface = kind.value.endswith("arcface")
        parameters = {"final_fc.w_0": _weights(settings, emb_dim, first, end, arcface=arcface)}
        if not arcface:
            parameters["final_fc.b_0"] = _bias(settings, end - first)
        return cls(
            ranks, arcface, divided, num_classes, first, settings.margin, settings.scale, parameters
        )

    def logits(self, embeddings: Any, labels: Any = None) -> Any:
        """Return logits of the classes of this rank: float32 of shape ``(n, classes)``.

        Args:
            embeddings: Float32 of shape ``(n, emb_dim)``.
            labels: Int64 of shape ``(n,)`` for a training, in which ArcFace's margin is on the
                classes of the labels; None without.
        """
        weights = self.parameters["final_fc.w_0"]
        if not self.is_arcface:
            return embeddings @ weights + self.parameters["final_fc.b_0"]
        normalize = paddle().nn.functional.normalize
        cosines = normalize(embeddings, axis=1) @ normalize(weights, axis=0)
        if labels is not None:
            angles = paddle().acos(paddle().clip(cosines, -_MAX_COSINE, _MAX_COSINE))
            with_margin = paddle().cos(angles + self.margin)
            cosines = cosines + (with_margin - cosines) * self._marks(labels, cosines)
        return cosines * self.scale

    def backward(self, embeddings: Any, labels: Any, counts: Sequence[int]) -> float:
        """Compute the gradients of the mean loss over the samples of all ranks.

        Gradients of parameters that all ranks have are parts: their sum over the ranks is the
        gradient.

        Args:
            embeddings: Float32 of shape ``(counts[rank], emb_dim)``.
            labels: Int64 of shape ``(counts[rank],)``.
            counts: Number of samples of each rank.

        Returns:
            The mean loss.
        """
        if self.is_divided:
            return self._divided_backward(embeddings, labels, counts)
        logits = self.logits(embeddings, labels)
        cross_entropy = paddle().nn.functional.cross_entropy
        loss = cross_entropy(logits, labels, reduction="sum") / sum(counts)
        loss.backward()
        return float(self.ranks.sum(loss.detach()))

    def top(self, embeddings: Any, counts: Sequence[int], k: int) -> Any:
        """Return the ``k`` classes of the highest logits: int64 of shape ``(counts[rank], k)``.

        A divided head needs all ranks, also those that have no sample.
        """
        if not self.is_divided:
            return paddle().topk(self.logits(embeddings), k)[1]
        ranks = self.ranks
        logits = self.logits(ranks.gather(embeddings, counts))
        values, classes = paddle().topk(logits, min(k, logits.shape[1]))
        # One column for each rank and place; absent places never are the highest.
        kept = paddle().full([ranks.world_size, k, logits.shape[0]], -math.inf)
        named = paddle().zeros([ranks.world_size, k, logits.shape[0]], "int64")
        kept[ranks.rank, : values.shape[1]] = values.T
        named[ranks.rank, : values.shape[1]] = classes.T + self.first
        kept = ranks.max(kept).reshape([-1, logits.shape[0]]).T
        named = ranks.sum(named).reshape([-1, logits.shape[0]]).T
        best = paddle().take_along_axis(named, paddle().topk(kept, k)[1], 1)
        begin = ranks.first_row(counts)
        return best[begin : begin + counts[ranks.rank]]

    def _divided_backward(self, embeddings: Any, labels: Any, counts: Sequence[int]) -> float:
        everyone = self.ranks.gather(embeddings.detach(), counts)
        everyone.stop_gradient = False
        labels = self.ranks.gather(labels, counts)
        logits = self.logits(everyone, labels)
        loss, gradient = self._loss(logits.detach(), labels)
        paddle().autograd.backward([logits], [gradient])
        begin = self.ranks.first_row(counts)
        own = self.ranks.sum(everyone.grad)[begin : begin + counts[self.ranks.rank]]
        paddle().autograd.backward([embeddings], [own])
        return loss

    def _loss(self, logits: Any, labels: Any) -> tuple[float, Any]:
        """Return the mean cross entropy over all classes, and its gradient by these logits."""
        marks = self._marks(labels, logits)
        logits = logits - self.ranks.max(logits.max(1, keepdim=True))
        powers = paddle().exp(logits)
        totals = self.ranks.sum(powers.sum(1, keepdim=True))
        targets = self.ranks.sum((logits * marks).sum(1, keepdim=True))
        losses = paddle().log(totals) - targets
        return float(losses.mean()), (powers / totals - marks) / logits.shape[0]

    def _marks(self, labels: Any, logits: Any) -> Any:
        """Return 1.0 where a column is the class of a row's label, 0.0 elsewhere."""
        columns = paddle().arange(self.first, self.first + logits.shape[1])
        return (labels.unsqueeze(1) == columns.unsqueeze(0)).astype("float32")


def class_range(num_classes: int, ranks: Ranks) -> tuple[int, int]:
    """Return the first class of a rank, and the class after its last.

    Raises:
        ConfigError: There are fewer classes than ranks.
    """
    if num_classes < ranks.world_size:
        raise ConfigError(
            f"expected at least {ranks.world_size} classes for a head that is divided over"
            f" {ranks.world_size} ranks, got {num_classes}; nothing was trained; use the loss"
            " type without dist_"
        )
    return tuple(num_classes * (ranks.rank + i) // ranks.world_size for i in range(2))  # type: ignore[return-value]


def _weights(settings: EntrySettings, emb_dim: int, first: int, end: int, *, arcface: bool) -> Any:
    kinds = paddle().nn.initializer
    bound = emb_dim**-0.5
    default = Xavier(uniform=False, fan_in=0.0) if arcface else Uniform(-bound, bound)
    attributes = framework_attributes(settings.distfc_param_attr) or paddle().ParamAttr()
    # All classes are drawn, and the others dropped, so that the values do not depend on ranks.
    drawn = paddle().create_parameter(
        [emb_dim, settings.num_classes],
        "float32",
        attr=paddle().ParamAttr(initializer=attributes.initializer),
        default_initializer=default.made(),
    )
    attributes.name, attributes.initializer = "final_fc.w_0", kinds.Assign(drawn[:, first:end])
    return paddle().create_parameter([emb_dim, end - first], "float32", attr=attributes)


def _bias(settings: EntrySettings, length: int) -> Any:
    attributes = framework_attributes(settings.distfc_bias_attr) or paddle().ParamAttr()
    attributes.name = "final_fc.b_0"
    zero = paddle().nn.initializer.Constant(0.0)
    return paddle().create_parameter([length], "float32", attr=attributes, default_initializer=zero)


# --- A classifier: a network, its head, its optimizer, and one step of their training

_SEED: Final = 0
_OF_HEAD: Final = "final_fc."


@dataclass(frozen=True)
class Classifier:
    """A network with its head, on one rank.

    Attributes:
        settings: The settings.
        ranks: The ranks.
        model: Builds the network.
        network: Parameters and running statistics of the network.
        emb_dim: Length of an embedding.
        head: The head; None if there is only a prediction.
        optimizer: Paddle's optimizer; None if nothing is trained.
    """

    settings: EntrySettings
    ranks: Ranks
    model: BaseModel
    network: Network
    emb_dim: int
    head: Head | None = None
    optimizer: Any = None

    @classmethod
    def made(cls, settings: EntrySettings, ranks: Ranks, *, trains: bool, head: bool) -> Classifier:
        """Make a classifier with its first values, which are equal on all ranks.

        Args:
            settings: The settings.
            ranks: The ranks.
            trains: Whether the network is that of a training, with an optimizer.
            head: Whether there is a head.

        Raises:
            ConfigError: The model builds no network, or returns no embeddings.
        """
        model = settings.model or ResNet50(settings.emb_dim)
        require_network(model)
        paddle().seed(_SEED)
        network = Network()
        images = np.zeros((2, *settings.image_shape), np.float32)
        build = _building(model, images, np.zeros(2, np.int64), is_train=trains)
        emb_dim = int(network.make(build).shape[1])
        made_head = Head.made(settings, ranks, emb_dim) if head else None
        optimizer = None
        if trains and made_head is not None:
            parameters = [*network.parameters.values(), *made_head.parameters.values()]
            optimizer = made_optimizer(settings, parameters)
        return cls(settings, ranks, model, network, emb_dim, made_head, optimizer)

    def embed(self, batch: ImageBatch, *, is_train: bool = False) -> Any:
        """Return the embeddings of images: float32 of shape ``(n, emb_dim)``.

        Raises:
            ConfigError: The network has changed since it was made.
            SampleShapeError: The images have another shape, or values that are not finite.
        """
        if batch.images.shape[1:] != self.settings.image_shape:
            raise SampleShapeError(
                f"expected images of shape {self.settings.image_shape}, got"
                f" {batch.images.shape[1:]}; nothing was computed for this batch; change the"
                " reader, or call set_image_shape"
            )
        if not np.isfinite(batch.images).all():
            # An activation may turn such a value into 0, so that the loss does not show it.
            raise SampleShapeError(
                "expected finite images, got NaN or infinite values; nothing was computed for this"
                " batch; change the reader"
            )
        labels = np.zeros(len(batch.images), np.int64) if batch.labels is None else batch.labels
        return self.network.call(_building(self.model, batch.images, labels, is_train=is_train))

    def step(self, batch: ImageBatch, counts: Sequence[int], step: int) -> float:
        """Train on one batch of each rank.

        Args:
            batch: The batch of this rank.
            counts: Number of samples of each rank.
            step: Number of the step, over all passes.

        Returns:
            The mean loss over the samples of all ranks, before the parameters change.

        Raises:
            ConfigError: The loss is not finite.
            SampleShapeError: Images have another shape or values that are not finite, or a label
                is no class.
        """
        head = self._head()
        # Dropout of this step depends on nothing before, so a training continues exactly.
        paddle().seed(_SEED + 1 + step * self.ranks.world_size + self.ranks.rank)
        if self.settings.optimizer is None:
            self.optimizer.set_lr(learning_rate(self.settings, step))
        labels = paddle().to_tensor(self._checked_labels(batch))
        loss = head.backward(self.embed(batch, is_train=True), labels, counts)
        if not np.isfinite(loss):
            raise ConfigError(
                f"expected a finite loss, got {loss} at step {step}; the checkpoints of whole"
                " passes are kept; lower the learning rate, or look at the images"
            )
        self._sum_gradients(head)
        self.optimizer.step()
        self.optimizer.clear_grad()
        advance_scheduler(self.optimizer)
        return loss

    def top(self, batch: ImageBatch | None, counts: Sequence[int], k: int) -> NDArray[np.int64]:
        """Return the ``k`` most likely classes of each image: shape ``(n, k)``.

        Args:
            batch: The batch of this rank; None if its reader has ended before those of others.
            counts: Number of images of each rank.
            k: Number of classes.
        """
        with paddle().no_grad():
            none = paddle().zeros([0, self.emb_dim])
            embeddings = none if batch is None else self.embed(batch)
            return self._head().top(embeddings, counts, k).numpy()  # type: ignore[no-any-return]

    def share_statistics(self) -> None:
        """Set the running statistics of all ranks to those of rank 0."""
        for value in self.network.statistics.values():
            value.set_value(self.ranks.broadcast(value, 0, value.shape[0]))

    def arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
        """Return what a checkpoint keeps: of the network, and of the head, with the optimizer's."""
        parameters = {**self.network.parameters, **self.network.statistics}
        own = dict(self._head().parameters)
        for name, value in self.optimizer.state_dict().items():
            if hasattr(value, "numpy"):
                (own if name.startswith(_OF_HEAD) else parameters)[f"optimizer/{name}"] = value
        network, head = (
            {name: value.numpy() for name, value in values.items()} for values in (parameters, own)
        )
        return network, head

    def scheduler_state(self) -> dict[str, Any]:
        """Return the state of the user's scheduler; empty without one."""
        return dict(self.optimizer.state_dict().get("LR_Scheduler", {}))

    def load(self, arrays: Mapping[str, NDArray[Any]], scheduler: Mapping[str, Any]) -> None:
        """Take the values of a checkpoint.

        Args:
            arrays: Of the network, of the columns of this rank, and of the optimizer.
            scheduler: State of the user's scheduler; empty without one.

        Raises:
            ConfigError: A parameter is missing in the checkpoint, or has another shape.
        """
        own = {**self.network.parameters, **self.network.statistics}
        own |= self.head.parameters if self.head is not None else {}
        for name, value in own.items():
            found = arrays.get(name)
            if found is None or list(found.shape) != list(value.shape):
                raise ConfigError(
                    f"expected {name} of shape {tuple(value.shape)} in the checkpoint, got"
                    f" {'none' if found is None else found.shape}; nothing was trained; use the"
                    " model, the classes and the loss type that it was saved with"
                )
            value.set_value(found)
        if self.optimizer is not None:
            self._load_optimizer(arrays, scheduler)

    def _load_optimizer(
        self, arrays: Mapping[str, NDArray[Any]], scheduler: Mapping[str, Any]
    ) -> None:
        state: dict[str, Any] = {
            name.removeprefix("optimizer/"): paddle().to_tensor(value)
            for name, value in arrays.items()
            if name.startswith("optimizer/")
        }
        if scheduler:
            state["LR_Scheduler"] = dict(scheduler)
        if state:
            self.optimizer.set_state_dict(state)

    def _checked_labels(self, batch: ImageBatch) -> NDArray[np.int64]:
        labels, num_classes = batch.labels, self.settings.num_classes
        if labels is None or not ((labels >= 0) & (labels < num_classes)).all():
            got = "none" if labels is None else f"{labels.min()} to {labels.max()}"
            raise SampleShapeError(
                f"expected labels from 0 to {num_classes - 1}, got {got}; this step was not"
                " trained; change the reader, or call set_class_num"
            )
        return labels

    def _sum_gradients(self, head: Head) -> None:
        """Set the gradients of parameters that all ranks have to their sums over the ranks."""
        shared = [*self.network.parameters.values()]
        shared += [] if head.is_divided else head.parameters.values()
        gradients = [each.grad for each in shared if each.grad is not None]
        if self.ranks.world_size == 1 or not gradients:
            return
        sums = self.ranks.sum(paddle().concat([each.flatten() for each in gradients]))
        sizes = [each.size for each in gradients]
        for gradient, part in zip(gradients, paddle().split(sums, sizes), strict=True):
            paddle().assign(part.reshape(gradient.shape), gradient)

    def _head(self) -> Head:
        assert self.head is not None, "made without a head"  # noqa: S101 - for the type checker
        return self.head


def _building(
    model: BaseModel, images: NDArray[Any], labels: NDArray[np.int64], *, is_train: bool
) -> Callable[[], Any]:
    def build() -> Any:
        label = paddle().to_tensor(labels.reshape(-1, 1))
        embeddings = model.build_network(paddle().to_tensor(images), label, is_train)
        shape = list(getattr(embeddings, "shape", ()))
        if len(shape) != 2 or shape[0] != len(images):
            raise ConfigError(
                f"expected build_network of {type(model).__name__} to return embeddings of shape"
                f" ({len(images)}, emb_dim) for {len(images)} images, got"
                f" {tuple(shape) if shape else type(embeddings).__name__}; nothing was trained"
            )
        return embeddings

    return build
