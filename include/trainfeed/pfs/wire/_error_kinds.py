"""Errors of files as statuses and names on the wire, and back."""

from __future__ import annotations

from typing import Final

from trainfeed.errors import (
    AccessDeniedError,
    ChecksumError,
    CommitUnknownError,
    ConfigError,
    ConflictError,
    FileReplacedError,
    FormatError,
    NotFoundError,
    Outcome,
    QuotaExceededError,
    StorageError,
    TrainFeedError,
    UnsuitableStoreError,
)

__all__ = ["error_of", "status_of"]

_STATUSES: Final[dict[type[TrainFeedError], int]] = {
    NotFoundError: 404,
    ConflictError: 409,
    AccessDeniedError: 403,
    QuotaExceededError: 507,
    FileReplacedError: 412,
    ChecksumError: 422,
    FormatError: 422,
    UnsuitableStoreError: 422,
    ConfigError: 400,
    CommitUnknownError: 500,
    StorageError: 500,
}
_KINDS: Final = {kind.__name__: kind for kind in _STATUSES}


def status_of(error: TrainFeedError) -> int:
    """Return the status of an error; 503 if a later try may succeed and the kind has none."""
    if type(error) is StorageError:
        return 503
    known = (status for kind, status in _STATUSES.items() if isinstance(error, kind))
    return next(known, 503 if error.outcome is Outcome.RETRY else 500)


def error_of(kind: str, text: str) -> TrainFeedError | None:
    """Return the error of a name on the wire; None if the name is not that of an error of files."""
    found = _KINDS.get(kind)
    return None if found is None else found(text)
