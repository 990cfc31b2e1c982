"""A classifier: a network, its head, its optimizer, and one step of their training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.compat._framework import paddle
from trainfeed.compat.paddle.fluid import Network
from trainfeed.compat.plsc.models.base_model import BaseModel, require_network
from trainfeed.compat.plsc.models.resnet import ResNet50
from trainfeed.compat.plsc.training._heads import Head
from trainfeed.compat.plsc.training._learning_rate import learning_rate
from trainfeed.compat.plsc.training._optimizers import advance_scheduler, made_optimizer
from trainfeed.errors import ConfigError, SampleShapeError

if TYPE_CHECKING:
    from trainfeed.compat.plsc._sample_form import ImageBatch
    from trainfeed.compat.plsc._settings import EntrySettings
    from trainfeed.compat.plsc.training._ranks import Ranks

__all__ = ["Classifier"]

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
