"""A process that works with the files of a version for long keeps retention from removing it.

It holds a lock of the manifest, beside other readers. The kernel drops the lock of a process that
dies, so no dead process keeps a version.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from trainfeed.dataset.layout import MANIFEST
from trainfeed.errors import NotFoundError, StorageError
from trainfeed.models._model import Model
from trainfeed.models._models_folder import ModelFolder
from trainfeed.storage import posix

__all__ = ["hold_model"]

logger = logging.getLogger(__name__)


@contextmanager
def hold_model(folder: ModelFolder, number: int) -> Iterator[Model]:
    """Open a version, and keep it from being removed in the block.

    Where the account may set no locks, the version is opened all the same, with a warning.

    Args:
        folder: The model.
        number: Number of the version.

    Raises:
        NotFoundError: There is no such version, or retention removed it.
        FormatError: The manifest is damaged.
        StorageError: The file system refused or failed.
    """
    path = Model.open(folder, number).path / MANIFEST
    with ExitStack() as stack:
        try:
            stack.enter_context(posix.shared_lock(path))
        except NotFoundError:
            pass  # a removal was faster, or the folder was moved: said below
        except StorageError as error:
            logger.warning("retention does not see that %s is in use: %s", path.parent, error)
        yield Model.open(folder, number)
