"""The inputs of a published version, used when its source is away.

A manifest names the inputs of its version. While code, specification and lookups are unchanged, a
build from these inputs would give the same version. A published interval is therefore found
identical without broker or folder of logs, whether the topic still exists or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trainfeed.dataset import Manifest
from trainfeed.errors import (
    SourceUnreachableError,
    StorageError,
    TopicNotFoundError,
    TrainFeedError,
)
from trainfeed.pipeline.plans import Planned, planned_of

__all__ = ["PublishedInputs", "is_away"]

# Only these errors mean that the source is away. An undefined connection, a wrong password or a
# folder without permission is a wrong setting of the deployment, and stays an error.
_AWAY: Final = (SourceUnreachableError, TopicNotFoundError)


def is_away(error: TrainFeedError) -> bool:
    """Return whether ``error`` means that the source is gone, or does not answer now."""
    # Not ``isinstance``: the subclasses of StorageError have other causes (denied, full, …).
    return isinstance(error, _AWAY) or type(error) is StorageError


class PublishedInputs:
    """The inputs of an interval from its published version.

    Args:
        error: The error of the source itself.
    """

    def __init__(self, error: TrainFeedError) -> None:
        self._error = error

    def inputs(self, current: Manifest | None) -> Mapping[str, Planned]:
        """Return source string → planned range or file.

        Args:
            current: The published version.

        Raises:
            TrainFeedError: Nothing is published; the error of the source.
        """
        if current is None:
            raise self._error
        return {source: planned_of(old) for source, old in current.inputs.items()}
