"""``trainfeed predict`` and ``serve``: predictions of published models."""

from trainfeed.cli.prediction._predict_command import predict

__all__ = ["predict"]
