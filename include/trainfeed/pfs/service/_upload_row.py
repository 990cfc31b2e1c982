"""One row of the table of uploads, with the work on it that outlives a request."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from trainfeed.pfs.service._open_upload import OpenUpload, UploadKey
from trainfeed.pfs.trees import DigestKind

__all__ = ["Finish", "UploadRow"]


@dataclass(frozen=True)
class Finish:
    """A finish at work, or one that failed and whose error no request has got yet.

    Attributes:
        chunks: Digest of each chunk, as the request gave them.
        work: Verifies and names the file.
    """

    chunks: tuple[bytes, ...]
    work: asyncio.Task[None]


@dataclass
class UploadRow:
    """One upload, from the request that begins it.

    Attributes:
        key: Facts that make two uploads the same one.
        opening: Opens the unfinished file; a row whose opening failed leaves the table.
        used: Time of the last request.
        finish: The last step, until a request has got its end.
        hashing: Digests the chunks that are there, for each kind, until a request has got them.
    """

    key: UploadKey
    opening: asyncio.Task[OpenUpload]
    used: float
    finish: Finish | None = None
    hashing: dict[DigestKind, asyncio.Task[tuple[bytes, ...]]] = field(default_factory=dict)

    @property
    def is_finishing(self) -> bool:
        """Whether the last step is at work."""
        return self.finish is not None and not self.finish.work.done()

    @property
    def is_usable(self) -> bool:
        """Whether a client that begins the upload again gets this one."""
        return not self.opening.done() or self.is_finishing or self.opening.result().is_open

    def forget_ends(self) -> None:
        """Drop what ended for a request that did not ask again."""
        if not self.is_finishing:
            self.finish = None
        self.hashing = {kind: work for kind, work in self.hashing.items() if not work.done()}
