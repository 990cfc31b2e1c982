"""The state of one trace: the graph so far, and the entries that could not be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from trainfeed.errors import FormatError, JobRejectedError, StorageError
from trainfeed.lineage._lineage_graph import LineageGraph

__all__ = ["Trace"]

# A job file is refused as a job; other errors of entries are about their bytes or the file system.
_UNREADABLE: Final = (FormatError, JobRejectedError, StorageError)


@dataclass(frozen=True)
class Trace:
    """What a trace has found.

    Attributes:
        root: The publication root.
        graph: The graph.
        damaged: Entry → why it could not be read; its part of the lineage is missing.
        doubts: What else the lineage does not cover, one line each.
    """

    root: Path
    graph: LineageGraph = field(default_factory=LineageGraph)
    damaged: dict[str, str] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)

    @contextmanager
    def entry(self, name: str) -> Iterator[None]:
        """Name an entry that cannot be read in the block, and go on behind the block."""
        try:
            yield
        except _UNREADABLE as error:
            self.damaged[name] = f"{type(error).__name__}: {error}"

    def doubt(self, line: str) -> None:
        """Note what the lineage does not cover, once."""
        if line not in self.doubts:
            self.doubts.append(line)
