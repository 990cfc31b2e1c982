"""The one home of PaddlePaddle among the interfaces of other libraries.

The import takes seconds, so it waits until a network is built; readers, loaders and settings work
without the package.
"""

from __future__ import annotations

from typing import Any

from trainfeed.errors import ConfigError

__all__ = ["paddle"]


def paddle() -> Any:
    """Return the module ``paddle``.

    Raises:
        ConfigError: PaddlePaddle is not installed.
    """
    try:
        import paddle as module
    except ModuleNotFoundError as error:
        # The framework is installed, but one of its own imports is missing: that error says more.
        if error.name != "paddle":
            raise
        raise ConfigError(
            "expected the package paddlepaddle for building a network, found none in this"
            " environment; nothing was trained; install trainfeed[paddle]"
        ) from None
    return module
