"""Files of a version that is not published yet.

A try writes below ``_staging/tmp`` under a name of its own, syncs, and renames onto the final name
in the plan's staging folder. So the folder that becomes the version never holds an unfinished
file, not even one of a try that nobody knows of any more.
"""

from __future__ import annotations

import hashlib
import io
import os
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from trainfeed import faults
from trainfeed.dataset import DatasetFolder
from trainfeed.dataset.layout import check_name
from trainfeed.paths import make_folders, unfinished_name
from trainfeed.storage import posix

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["StagedFile", "stage_bytes"]


class StagedFile(io.RawIOBase):
    """A binary file that gets its name in the staging folder when it is whole.

    Use as a context manager; leaving it with an exception removes what was written.

    Args:
        folder: The data set.
        plan_id: The plan, whose staging folder must exist.
        name: Final name; may lie one folder deep, as in ``quarantine/part.arrow``.
        mode: Permissions of the finished file.

    Attributes:
        num_bytes: Bytes written so far.
        sha256: Digest of the whole file in hex, once it is closed.
    """

    def __init__(self, folder: DatasetFolder, plan_id: str, name: str, *, mode: int) -> None:
        tmp = folder.staging / "tmp"
        with posix.map_errors(tmp):
            make_folders(tmp)
        self._staged = folder.staged(plan_id)
        self._target = self._staged.joinpath(*map(check_name, name.split("/")))
        self._tmp = tmp / unfinished_name(plan_id)
        self._mode = mode
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        with posix.map_errors(self._tmp):
            self._file = os.fdopen(os.open(self._tmp, flags, 0o600), "wb", buffering=1 << 20)
        self._digest = hashlib.sha256()
        self.num_bytes = 0

    @property
    def sha256(self) -> str:
        """Digest of what was written so far, in hex."""
        return self._digest.hexdigest()

    def writable(self) -> bool:
        """Whether ``write`` works: always."""
        return True

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self.num_bytes

    def write(self, data: Buffer) -> int:
        """Append ``data``."""
        self._digest.update(data)
        with posix.map_errors(self._target):
            written = self._file.write(data)
        self.num_bytes += written
        return written

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._finish()
        finally:
            self._tmp.unlink(missing_ok=True)
            # Closing a file that could not be flushed fails as well, and would hide why.
            with suppress(OSError):
                self._file.close()

    def _finish(self) -> None:
        # An fsync that failed says nothing of what is on disk, and a second one would lie: the
        # exception ends this try, and the next one writes a file of its own.
        with posix.map_errors(self._target):
            self._file.flush()
            os.fchmod(self._file.fileno(), self._mode)
            os.fsync(self._file.fileno())
            self._file.close()
            faults.point("staging.before_rename")
            if self._target.parent != self._staged:
                # Without its parents: a staging folder that was published must not come back.
                make_folders(self._target.parent)
            self._tmp.rename(self._target)


def stage_bytes(
    folder: DatasetFolder, plan_id: str, name: str, data: bytes, *, mode: int = 0o444
) -> None:
    """Put a small file into the staging folder of a plan."""
    with StagedFile(folder, plan_id, name, mode=mode) as file:
        file.write(data)
