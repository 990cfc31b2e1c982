"""Imports of names that have moved: code of users is told the new name before it runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from trainfeed.errors import ConfigError

__all__ = ["refuse_moved_names"]

_PADDLE: Final = "trainfeed.compat.paddle.loading"
# Old module, or name in a module → where it is now. The longest match counts.
_MOVED: Final = {
    "trainfeed.build": "trainfeed.preprocessing",
    "trainfeed.build.PlanRef": "trainfeed.pipeline.PlanRef",
    "trainfeed.build.batch": "trainfeed.preprocessing",
    "trainfeed.build.pipeline": "trainfeed.pipeline.local",
    "trainfeed.build.plain": "trainfeed.preprocessing",
    "trainfeed.loader.DistributedBatchSampler": f"{_PADDLE}.DistributedBatchSampler",
    "trainfeed.loader.FeedVariable": f"{_PADDLE}.FeedVariable",
    "trainfeed.loader.GeneratorLoader": f"{_PADDLE}.GeneratorLoader",
    "trainfeed.loader.IndexBatch": f"{_PADDLE}.IndexBatch",
    "trainfeed.spec": "trainfeed.specification",
}


def refuse_moved_names(path: Path, tree: ast.Module) -> None:
    """Refuse a module that imports from where something was in an earlier release.

    Args:
        path: The module, for the message.
        tree: Its source, parsed.

    Raises:
        ConfigError: Names the first such import, its line, and what to write instead.
    """
    for line, name in _imported_names(tree):
        if new := _new_name(name):
            raise ConfigError(
                f"{path}:{line} imports {name}, which is {new} now: change the import; nothing was"
                " run. docs/upgrading.md says what this does to intervals that are published"
            )


def _imported_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def _new_name(name: str) -> str | None:
    """Return the new name; a name in a module that moved keeps its last part."""
    parts = name.split(".")
    for end in range(len(parts), 1, -1):
        if new := _MOVED.get(".".join(parts[:end])):
            return ".".join([new, *parts[end:]])
    return None
