"""The lookup files of every plan, kept below the publication root, to show what changed in them.

A plan has one digest for each lookup file. The bytes are kept in ``<data set>/lookups/<digest>``,
as the code is, readable only for the account that builds: lookups may hold personal data. Files
above 1 MiB are not kept, and none is if dataset.yaml says ``keep_lookups: false``. Without the
file only the difference of its lines cannot be shown.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from trainfeed import faults
from trainfeed.dataset import DatasetFolder
from trainfeed.errors import AccessDeniedError, FormatError, NotFoundError, StorageError
from trainfeed.paths import open_plain, read_plain
from trainfeed.specification import DatasetSpec
from trainfeed.storage import posix

__all__ = ["KeptLookup", "keep_lookups", "kept_lookup"]

_MAX_BYTES: Final = 1 << 20
_MODE: Final = 0o600


@dataclass(frozen=True)
class KeptLookup:
    """What is known of the content of a lookup file.

    Attributes:
        data: Its bytes; None where they are not at hand.
        why_not: Why they are not; empty where they are.
    """

    data: bytes | None
    why_not: str = ""


def keep_lookups(folder: DatasetFolder, spec: DatasetSpec) -> None:
    """Keep the lookup files of a data set, each unless it is kept, or larger than 1 MiB.

    Raises:
        StorageError: A file cannot be read, or the publication root refused or failed.
    """
    if not spec.keep_lookups:
        return
    for name in sorted(spec.lookups):
        with open_plain(spec.folder / spec.lookups[name], follow=True) as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) <= _MAX_BYTES:
            _keep(folder, data)


def kept_lookup(folder: DatasetFolder, digest: str) -> KeptLookup:
    """Return the kept bytes of a lookup file, which have this SHA-256; never an error."""
    path = folder.lookup(digest)
    try:
        data = read_plain(path, follow=False, max_bytes=_MAX_BYTES)
    except NotFoundError:
        why = "its content was not kept: it is larger than 1 MiB, or not to be kept"
    except AccessDeniedError:
        why = "only the account that builds may read its kept content"
    except (FormatError, StorageError) as error:
        why = f"its kept content cannot be read: {error}"
    else:
        if hashlib.sha256(data).hexdigest() == digest:
            return KeptLookup(data)
        why = f"its kept content is damaged: another SHA-256 than its name; remove {path}"
    return KeptLookup(None, why)


def _keep(folder: DatasetFolder, data: bytes) -> None:
    # Named by its own digest: a file that changed since the plan has another one.
    path = folder.lookup(hashlib.sha256(data).hexdigest())
    with posix.map_errors(path):
        if path.exists():
            return
    posix.make_public_dir(path.parent)
    faults.point("plan.before_kept_lookup")
    posix.create_exclusive(path, data, mode=_MODE)
    faults.point("plan.after_kept_lookup")
