"""The folders that ``Entry.set_hdfs_info`` names, with a password that is never shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NoReturn

__all__ = ["HdfsFolders", "Password"]

_HIDDEN: Final = "***"


class Password:
    """A password: its text is hidden in every form that a log, a message or a file could take."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text, for the client that sends it."""
        return self._text

    def __repr__(self) -> str:
        return _HIDDEN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Password) and self._text == other._text

    def __hash__(self) -> int:
        return hash(Password)

    def __reduce__(self) -> NoReturn:
        raise TypeError("expected no copy of a password in a file or another process")


@dataclass(frozen=True)
class HdfsFolders:
    """Where a training gets its first model from, and where its models go.

    Attributes:
        base: URI of the file system, such as ``hdfs://namenode:8020``.
        user: Name of the account.
        password: Password of the account.
        save: Folder that models are uploaded to after the training; None for no upload.
        checkpoint: Folder that a model is downloaded from before the training; None for none.
    """

    base: str
    user: str
    password: Password
    save: str | None = None
    checkpoint: str | None = None
