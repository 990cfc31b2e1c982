"""Files of a version that is not published yet.

An attempt writes to a unique name below ``_staging/tmp``, syncs, and renames the file to its final
name in the plan's staging folder. The staging folder becomes the version, and therefore never holds
an unfinished file, not even one of an attempt that was given up.
"""

from __future__ import annotations

import hashlib
from types import TracebackType
from typing import Final, Self

from trainfeed import faults
from trainfeed.dataset import DatasetFolder
from trainfeed.dataset.layout import check_name
from trainfeed.paths import (
    DigestedFile,
    UnfinishedFile,
    make_folders,
    os_errors,
    unfinished_name,
)

__all__ = ["StagedFile"]

_BUFFER_BYTES: Final = 1 << 20


class StagedFile(DigestedFile):
    """A binary file that gets its name in the staging folder when it is complete.

    Use it as a context manager; leaving it with an exception removes the file. Publication syncs
    the folder.

    Args:
        folder: The data set.
        plan_id: The plan, whose staging folder must exist.
        name: Final name; may lie one folder deep, as in ``quarantine/part.arrow``.
        mode: Permissions of the finished file.

    Attributes:
        num_bytes: Bytes written so far.
        sha256: Digest of the bytes written so far, in hex.
    """

    def __init__(self, folder: DatasetFolder, plan_id: str, name: str, *, mode: int) -> None:
        tmp = folder.staging / "tmp"
        with os_errors(tmp):
            make_folders(tmp)
        self._staged = folder.staged(plan_id)
        self._target = self._staged.joinpath(*map(check_name, name.split("/")))
        self._mode = mode
        self._new = UnfinishedFile(
            self._target,
            unfinished=tmp / unfinished_name(plan_id),
            mode=0o600,
            buffer_bytes=_BUFFER_BYTES,
        )
        super().__init__(self._new.file, hashlib.sha256())

    @property
    def sha256(self) -> str:
        """Digest of the bytes written so far, in hex."""
        return self.hexdigest

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._new:
            if error is None:
                self._finish()

    def _finish(self) -> None:
        self._new.set_mode(self._mode)
        self._new.sync()
        faults.point("staging.before_rename")
        if self._target.parent != self._staged:
            # Only the inner folder is made: the staging folder itself must not come back after
            # its rename by another run.
            with os_errors(self._target):
                make_folders(self._target.parent)
        self._new.replace(is_folder_synced=False)
