"""Code of users as a syntax tree, without running it."""

from __future__ import annotations

import ast
from pathlib import Path

from trainfeed.errors import ConfigError

__all__ = ["parse_source"]


def parse_source(path: Path, source: bytes) -> ast.Module:
    """Parse a module.

    Args:
        path: Where it comes from, for messages.
        source: Its content.

    Raises:
        ConfigError: It is no Python; names the line.
    """
    try:
        return ast.parse(source, filename=str(path))
    except SyntaxError as error:
        line, what = error.lineno or 1, error.msg
    except ValueError as error:
        # What Python before 3.11.4 says of a NUL.
        line, what = 1, str(error)
    raise ConfigError(f"{path}:{line}: expected Python, got {what!r}; correct the module")
