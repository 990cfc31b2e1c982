"""The one home of PaddlePaddle among the interfaces of other libraries.

The import takes seconds, so it waits until a network is built; readers, loaders and settings work
without the package.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from trainfeed.errors import ConfigError

__all__ = ["not_here", "not_offered", "paddle"]


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


def not_here(module: str) -> Callable[[str], NoReturn]:
    """Return the ``__getattr__`` of a module whose other names build or train a network."""
    return _missing(
        module,
        "is not here: trainfeed reads data and builds no network beside those of"
        " trainfeed.compat.plsc; import it from PaddlePaddle, or train with another library",
    )


def not_offered(module: str, offer: str) -> Callable[[str], NoReturn]:
    """Return the ``__getattr__`` of a module that says what it offers instead of other names."""
    return _missing(module, f"is not offered: trainfeed has {offer}")


def _missing(module: str, reason: str) -> Callable[[str], NoReturn]:
    def refuse(name: str) -> NoReturn:
        raise AttributeError(f"{module}.{name} {reason}")

    return refuse
