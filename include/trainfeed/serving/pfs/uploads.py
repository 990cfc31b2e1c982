"""All open uploads of a server: found by number, shared, finished once, closed if idle."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from trainfeed.errors import CommitUnknownError, ConflictError, FormatError
from trainfeed.serving.pfs.areas import Disk, Place
from trainfeed.serving.pfs.limits import FileLimits
from trainfeed.serving.pfs.tree import (
    CHUNK_BYTES,
    DigestKind,
    SourceState,
    Target,
    chunk_count,
    chunk_size,
    unfinished_file_name,
)
from trainfeed.serving.server import Refusal

# --- One upload: an unfinished file, to which several requests write chunks


@dataclass(frozen=True)
class UploadKey:
    """What makes two uploads the same one: a client that begins again gets the open upload.

    Attributes:
        user: Name of the caller.
        place: Place that the complete file gets.
        state: State of the source.
        replace: Whether a file that has the name is replaced.
    """

    user: str
    place: Place
    state: SourceState
    replace: bool


class OpenUpload:
    """An open unfinished file; methods are called in threads.

    Args:
        key: What is uploaded, and where to.
        target: The unfinished file, which this object closes.
    """

    def __init__(self, key: UploadKey, target: Target) -> None:
        self.key = key
        self._target = target
        self._writers = 0
        self._is_open = True
        self._changed = threading.Condition()

    @property
    def is_open(self) -> bool:
        """Whether the upload takes chunks: it is neither closed nor being finished."""
        return self._is_open

    def write(self, offset: int, data: bytearray) -> None:
        """Write one chunk; the same bytes may be written again.

        Raises:
            FormatError: Offset or size are not those of a chunk of the file.
            ConflictError: The upload ends just now.
            QuotaExceededError: The disk or a quota is full; what is there stays.
            StorageError: The storage refused or failed.
        """
        index, rest = divmod(offset, CHUNK_BYTES)
        num_bytes = self.key.state.num_bytes
        if rest or not 0 <= index < chunk_count(num_bytes):
            raise FormatError(
                f"expected the offset of a chunk of {CHUNK_BYTES} bytes in a file of {num_bytes}"
                f" bytes, got {offset}; nothing was written"
            )
        if len(data) != chunk_size(num_bytes, index):
            raise FormatError(
                f"expected {chunk_size(num_bytes, index)} bytes at {offset}, got {len(data)};"
                " nothing was written"
            )
        with self._writing():
            self._target.write(offset, memoryview(data))

    def digests(self, kind: DigestKind = DigestKind.SHA256) -> tuple[bytes, ...]:
        """Return the digests of the chunks that are there; raises as ``write`` does."""
        with self._writing():
            return self._target.digests(kind)

    def finish(self, chunks: Sequence[bytes], kind: DigestKind = DigestKind.SHA256) -> None:
        """Sync, verify and name the file, and close the upload.

        After an error, an upload whose file has no name yet stays open.

        Raises:
            ChecksumError: The file does not have these chunks.
            FormatError: The number of chunks is not that of the source.
            ConflictError: The name is taken, or the upload ends just now.
            CommitUnknownError: The file may have its name; the upload is closed.
            StorageError: The storage refused or failed.
        """
        # No chunk may come after the comparison: it would change a file that has its name.
        self._end()
        try:
            self._target.commit(chunks, kind)
        except CommitUnknownError:
            self._target.close()
            raise
        except BaseException:
            with self._changed:
                self._is_open = True
            raise
        self._target.close()

    def close(self) -> None:
        """Close the upload after the chunks that are being written; its file stays unfinished.

        Raises:
            ConflictError: The upload ends just now, or has ended.
        """
        self._end()
        self._target.close()

    def _end(self) -> None:
        with self._changed:
            self._require_open()
            self._is_open = False
            self._changed.wait_for(lambda: not self._writers)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._changed:
            self._require_open()
            self._writers += 1
        try:
            yield
        finally:
            with self._changed:
                self._writers -= 1
                self._changed.notify_all()

    def _require_open(self) -> None:
        if not self._is_open:
            raise ConflictError(
                f"{self.key.place.path}: this upload is being finished or was closed; nothing was"
                " written; ask for its end, or begin it again"
            )


# --- One row of the table of uploads, with the work on it that outlives a request


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


# --- All open uploads of a server: found by number and caller, shared, finished once

_log: Final = logging.getLogger("trainfeed.pfs")
# Ends that are remembered: a client whose answer was lost asks for the end again.
_KEPT_ENDS: Final = 4096
_LOOK_SECONDS: Final = 5.0


@dataclass
class Uploads:
    """The table. For one loop.

    Attributes:
        disk: Threads for the work on files.
        limits: Bounds of uploads.
        clock: Seconds of a clock that never goes back.
    """

    disk: Disk
    limits: FileLimits
    clock: Callable[[], float] = time.monotonic
    _rows: dict[str, UploadRow] = field(default_factory=dict)
    _ended: OrderedDict[str, tuple[str, bytes]] = field(default_factory=OrderedDict)

    async def begin(self, key: UploadKey) -> str:
        """Open the unfinished file of an upload, or the upload that is open; return its number.

        Raises:
            Refusal: The user has as many uploads as one user may have, or the storage refused.
        """
        rows = self._rows.items()
        number = next((each for each, row in rows if row.key == key and row.is_usable), None)
        if number is None:
            self._require_room(key.user)
            number = secrets.token_hex(16)
            opening = asyncio.create_task(self._opened(number, key))
            self._rows[number] = UploadRow(key, opening, self.clock())
        row = self._rows[number]
        row.used = self.clock()
        row.forget_ends()
        # A request that is cancelled leaves the opening to the next one.
        await asyncio.shield(row.opening)
        return number

    async def opened(self, number: str, user: str) -> OpenUpload:
        """Return an open upload of a user.

        Raises:
            Refusal: The user has no such upload.
        """
        row = self._row(number, user)
        row.used = self.clock()
        return await asyncio.shield(row.opening)

    async def digests(
        self, number: str, user: str, seconds: float, kind: DigestKind = DigestKind.SHA256
    ) -> tuple[bytes, ...] | None:
        """Return the digests of the chunks that are there; None if they take longer.

        Raises:
            Refusal: The user has no such upload, or the storage refused.
        """
        row, upload = self._row(number, user), await self.opened(number, user)
        if (hashing := row.hashing.get(kind)) is None:
            work = self.disk.run(user, partial(upload.digests, kind))
            hashing = row.hashing[kind] = asyncio.create_task(work)
        if not await _done(hashing, seconds):
            return None
        row.hashing.pop(kind, None)
        return hashing.result()

    async def finish(
        self,
        number: str,
        user: str,
        chunks: tuple[bytes, ...],
        seconds: float,
        kind: DigestKind = DigestKind.SHA256,
    ) -> bool:
        """Verify and name the file, and close the upload; return whether that has ended.

        A repeated call asks for the end of the first, also after it. The end of a finish that no
        request asked for again is dropped when the upload is begun.

        Raises:
            Refusal: The user has no such upload, another finish with other chunks is at work, the
                chunks differ, or the storage refused. The upload stays if its file has no name.
        """
        if self._ended.get(number) == _end(user, chunks):
            return True
        row, upload = self._row(number, user), await self.opened(number, user)
        finish = row.finish
        if finish is None or (finish.work.done() and finish.chunks != chunks):
            work = self._finished(number, upload, chunks, kind)
            finish = row.finish = Finish(chunks, asyncio.create_task(work))
        if finish.chunks != chunks:
            raise _other_finish()
        if not await _done(finish.work, seconds):
            return False
        if row.finish is finish:
            # After an error, the next call tries again.
            row.finish = None
        finish.work.result()
        return True

    async def abort(self, number: str, user: str) -> None:
        """Close an upload and remove its unfinished file.

        Raises:
            Refusal: The user has no such upload, or the storage refused.
        """
        row, upload = self._row(number, user), await self.opened(number, user)
        await self.disk.run(user, upload.close)
        self._rows.pop(number, None)
        place, state = row.key.place, row.key.state
        parts = (*place.parts[:-1], unfinished_file_name(place.path.name, state))
        await self.disk.run(user, partial(place.tree.remove, parts))

    def of(self, user: str) -> list[dict[str, Any]]:
        """Return the open uploads of a user."""
        return [
            {
                "upload": number,
                "path": str(row.key.place.path),
                "num_bytes": row.key.state.num_bytes,
            }
            for number, row in self._rows.items()
            if row.key.user == user
        ]

    async def close_idle(self) -> None:
        """Close uploads that no request has named for a time, again and again."""
        while True:
            await asyncio.sleep(min(_LOOK_SECONDS, self.limits.upload_idle_seconds / 2))
            oldest = self.clock() - self.limits.upload_idle_seconds
            rows = list(self._rows.items())
            for number in [
                each for each, row in rows if row.used < oldest and not row.is_finishing
            ]:
                await self._close(number)

    async def close(self) -> None:
        """Close all uploads; their unfinished files stay."""
        for number in list(self._rows):
            await self._close(number)

    async def _close(self, number: str) -> None:
        # A request may have ended the upload while others were closed.
        if (row := self._rows.pop(number, None)) is None:
            return
        try:
            upload = await row.opening
            await self.disk.run(None, upload.close)
        except Refusal as error:
            _log.info("upload of %s was not open any more: %s", row.key.place.path, error)
        except Exception:  # noqa: BLE001 (logged; the other uploads are closed all the same)
            _log.exception("upload of %s was not closed", row.key.place.path)

    async def _opened(self, number: str, key: UploadKey) -> OpenUpload:
        place = key.place
        call = partial(place.tree.open_target, place.parts, key.state, replace=key.replace)
        try:
            return OpenUpload(key, await self.disk.run(key.user, call))
        except BaseException:
            self._rows.pop(number, None)
            raise

    async def _finished(
        self, number: str, upload: OpenUpload, chunks: tuple[bytes, ...], kind: DigestKind
    ) -> None:
        """Finish an upload, whose row ends with it whether or not a request waits."""
        try:
            await self.disk.run(upload.key.user, partial(upload.finish, chunks, kind))
        finally:
            if not upload.is_open:
                self._rows.pop(number, None)
        self._ended[number] = _end(upload.key.user, chunks)
        if len(self._ended) > _KEPT_ENDS:
            self._ended.popitem(last=False)

    def _row(self, number: str, user: str) -> UploadRow:
        row = self._rows.get(number)
        if row is None or row.key.user != user:
            # The same answer for a number of another user: it says nothing about others.
            raise Refusal(
                404,
                "UploadUnknown",
                expected="the number of an upload of this user that is open",
                got="another one",
                remedy="begin the upload again; chunks that are there are not sent again",
            )
        return row

    def _require_room(self, user: str) -> None:
        own, free = len(self.of(user)), self.limits.all_uploads - len(self._rows)
        # One user alone gets half, so that the descriptors of uploads are never all in one hand.
        room = min(self.limits.uploads, max(free, 0))
        if own >= room:
            raise Refusal(
                429,
                "TooManyUploads",
                expected=f"at most {room} unfinished uploads of one user now",
                got="one more",
                remedy="finish or abort some; idle ones are closed by themselves",
                retry_after=5,
            )


def _end(user: str, chunks: tuple[bytes, ...]) -> tuple[str, bytes]:
    """Return what a finish is known by after its end."""
    return user, hashlib.sha256(b"".join(chunks)).digest()


def _other_finish() -> Refusal:
    return Refusal(
        409,
        "ConflictError",
        expected="the chunks with which this upload is being finished",
        got="others",
        remedy="begin the upload again when that finish has ended",
    )


async def _done(task: asyncio.Task[Any], seconds: float) -> bool:
    """Wait for a task for a time; the end of the wait, or of the request, leaves it at work."""
    await asyncio.wait({task}, timeout=seconds)
    return task.done()
