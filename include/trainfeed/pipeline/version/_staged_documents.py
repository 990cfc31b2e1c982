"""Copies the documents of a data set into a staged version."""

from __future__ import annotations

from trainfeed.dataset.manifest import FileEntry
from trainfeed.dataset.publication import StagedFile
from trainfeed.dataset.version import DOCUMENTS
from trainfeed.pipeline.stage import Stage
from trainfeed.usercode import read_document

__all__ = ["staged_documents"]


def staged_documents(stage: Stage) -> list[FileEntry]:
    """Write the documents of the plan; return their entries for the manifest.

    Raises:
        CodeChangedError: A document is not the one of the plan.
        StorageError: A file cannot be read or written.
    """
    return [
        _staged(stage, name, read_document(stage.spec, name, planned))
        for name, planned in stage.plan.documents.items()
    ]


def _staged(stage: Stage, name: str, data: bytes) -> FileEntry:
    path = f"{DOCUMENTS}/{name}"
    with StagedFile(stage.staged, path, mode=0o444) as file:
        file.write(data)
    return FileEntry(name=path, bytes=file.num_bytes, sha256=file.sha256)
