"""The quarantined records of a published version: ``quarantine/records.arrow``.

Only the account that builds may read the file.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import pyarrow as pa

from trainfeed.dataset import Version
from trainfeed.errors import NotFoundError
from trainfeed.paths import open_plain
from trainfeed.pipeline._ref import PlanRef
from trainfeed.pipeline.quarantine._private_quarantine import require_private
from trainfeed.pipeline.quarantine._quarantined import Quarantine, damaged
from trainfeed.pipeline.sorting import QUARANTINE_SCHEMA
from trainfeed.storage import posix

if TYPE_CHECKING:
    from io import BufferedReader

__all__ = ["QUARANTINE_FILE", "quarantine_of_version"]

QUARANTINE_FILE: Final = "quarantine/records.arrow"


def quarantine_of_version(version: Version) -> Quarantine:
    """Return the quarantine of a published version; nothing is read yet.

    Raises:
        NotFoundError: The version has no such file.
    """
    path = version.path / QUARANTINE_FILE
    manifest = version.manifest
    entry = manifest.file_digests().get(QUARANTINE_FILE)
    if entry is None:
        raise NotFoundError(f"version {version.name} has no file {QUARANTINE_FILE}")
    return Quarantine(
        dataset=manifest.dataset,
        interval=version.path.parent.name,
        origin=version.path.name,
        plan=PlanRef(manifest.dataset, version.path.parent.name, manifest.plan),
        is_published=True,
        place=str(path),
        modified_ms=_modified_ms(version.path),
        _sources=tuple(manifest.sources),
        _tables=lambda columns: _tables(path, entry[1], columns),
    )


def _tables(path: Path, sha256: str, columns: Sequence[str]) -> Iterator[pa.Table]:
    with open_plain(path, follow=False) as file, _arrow_errors(path):
        require_private(path, os.fstat(file.fileno()), owner=path.parent.parent)
        # Nothing in the file itself proves an offset or a text.
        if (
            got := hashlib.file_digest(cast("BufferedReader", file), "sha256").hexdigest()
        ) != sha256:
            raise damaged(str(path), f"expected SHA-256 {sha256}, got {got}")
        schema = pa.ipc.open_file(file).schema
        if not schema.equals(QUARANTINE_SCHEMA):
            raise damaged(str(path), f"got columns {schema.names}, or of other types")
        fields = [schema.get_field_index(name) for name in columns]
        options = pa.ipc.IpcReadOptions(included_fields=fields)
        reader = pa.ipc.open_file(file, options=options)
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number)
            # The buffers come from a file: without validation, an offset that points outside of its
            # buffer would crash the process.
            batch.validate(full=True)
            yield pa.Table.from_batches([_whole(batch, path)])


def _whole(batch: pa.RecordBatch, path: Path) -> pa.RecordBatch:
    """Refuse values that are missing: a build writes none, and only the bytes may be empty."""
    for name in batch.schema.names:
        if batch[name].null_count:
            raise damaged(str(path), f"got {batch[name].null_count} records without {name}")
    return batch


@contextmanager
def _arrow_errors(path: Path) -> Iterator[None]:
    """Raise Arrow's errors about damaged bytes of a file as ``FormatError``."""
    try:
        yield
    # pyarrow raises some errors about damaged bytes as OSError without errno.
    except (pa.ArrowException, OSError, UnicodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise damaged(str(path), str(error)) from error


def _modified_ms(path: Path) -> int:
    with posix.map_errors(path):
        return path.stat().st_mtime_ns // 1_000_000
