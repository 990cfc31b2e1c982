"""``file://``: paths of this machine, mounted network file systems included."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, ClassVar, Final, TypeVar, cast

from trainfeed.errors import ConflictError, NotFoundError
from trainfeed.storage import posix
from trainfeed.storage._atomic import claim_by_rename
from trainfeed.storage._base import (
    FILE_MODE,
    FOLDER_MODE,
    FileInfo,
    FileInfos,
    refuse_root,
)
from trainfeed.storage._errors import map_os_errors
