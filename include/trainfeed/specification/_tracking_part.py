"""``train.tracking`` of a specification: the tools that show the training's metrics."""

from __future__ import annotations

from trainfeed.specification._spec_values import Part

__all__ = ["TrackingSpec"]


class TrackingSpec(Part):
    """The tools that get the metrics of the training, beside its metrics log.

    Attributes:
        tensorboard: Whether rank 0 writes event files of TensorBoard into the job's folder.
    """

    tensorboard: bool = False
