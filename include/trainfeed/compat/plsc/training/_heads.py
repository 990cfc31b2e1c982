"""Heads: from embeddings to logits of classes and a loss, softmax or ArcFace, whole or divided.

A divided head holds a part of the classes on each rank. Logits and loss are those of the whole
head over the samples of all ranks; only rows of embeddings, a maximum and two sums of a sample,
and gradients of embeddings go over the network.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from trainfeed.compat._framework import paddle
from trainfeed.compat.paddle.fluid.initializer import Uniform, Xavier
from trainfeed.compat.paddle.fluid.param_attr import framework_attributes
from trainfeed.errors import ConfigError

if TYPE_CHECKING:
    from trainfeed.compat.plsc._settings import EntrySettings
    from trainfeed.compat.plsc.training._ranks import Ranks

__all__ = ["Head"]

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
