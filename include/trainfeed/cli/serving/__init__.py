"""The servers' commands: ``serve``, ``dispatch``, ``token``, and ``predict`` beside them."""

from trainfeed.cli.serving._dispatch import app as dispatch
from trainfeed.cli.serving._predict_command import predict
from trainfeed.cli.serving._serve_command import serve
from trainfeed.cli.serving._token import app as token

__all__ = ["dispatch", "predict", "serve", "token"]
