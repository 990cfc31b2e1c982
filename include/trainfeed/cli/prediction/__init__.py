"""``trainfeed predict`` and ``serve``: predictions of published models."""

from trainfeed.cli.prediction._predict_command import predict
from trainfeed.cli.prediction._serve_command import serve

__all__ = ["predict", "serve"]
