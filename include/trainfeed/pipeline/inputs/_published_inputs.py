"""The inputs of a published version, for when its source is not there to be asked.

A version says what it was built from. While code, specification and lookups are those that it was
built with, it is what a build would make, whether the topic still exists or not: a published
interval needs neither broker nor folder of logs to be found identical.
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

# A connection that is not defined, a wrong password and a folder that may not be read are settings
# of this deployment: they stay errors until they are changed.
_AWAY: Final = (SourceUnreachableError, TopicNotFoundError)


def is_away(error: TrainFeedError) -> bool:
    """Return whether ``error`` says that the source is gone, or does not answer just now."""
    # The subclasses of StorageError mean something definite: denied, full, unsuitable.
    return isinstance(error, _AWAY) or type(error) is StorageError


class PublishedInputs:
    """The inputs of an interval as its published version names them.

    Args:
        error: Why the source itself was not asked.
    """

    def __init__(self, error: TrainFeedError) -> None:
        self._error = error

    def inputs(self, current: Manifest | None) -> Mapping[str, Planned]:
        """Return source string → planned range or file.

        Args:
            current: The published version.

        Raises:
            TrainFeedError: That of the source, when nothing is published.
        """
        if current is None:
            raise self._error
        return {source: planned_of(old) for source, old in current.inputs.items()}
