"""The servers' commands: ``serve``, ``dispatch``, ``token``, and ``predict`` beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.cli.serving._dispatch import app as dispatch
    from trainfeed.cli.serving._predict_command import predict
    from trainfeed.cli.serving._serve_command import serve
    from trainfeed.cli.serving._token import app as token

__all__ = [
    "dispatch",
    "predict",
    "serve",
    "token",
]


__getattr__ = on_demand(__name__, __file__)
