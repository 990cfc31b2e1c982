"""Tells which chunks of a damaged shard are damaged, for the message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainfeed.dataset import Version
from trainfeed.dataset.chunks import decoder_of
from trainfeed.dataset.version import ShardChunk
from trainfeed.errors import FormatError, StorageError
from trainfeed.paths import open_plain

__all__ = ["damaged_chunks"]

_MOST: Final = 3


def damaged_chunks(version: Version, name: str) -> str:
    """Return a part of a message, which begins with a semicolon; empty if it cannot be told.

    Args:
        version: The version.
        name: A file with another digest than that of the manifest.
    """
    place = _place(version, name)
    if place is None:
        return ""
    split, number = place
    try:
        chunks = [each for each in version.chunks(split) if each.shard == number]
        damaged = list(_damaged(version, name, chunks))
    except (FormatError, StorageError):
        return ""
    if not damaged:
        return f"; its {len(chunks)} chunks are intact, bytes between them are not"
    more = f" and {len(damaged) - _MOST} more" if len(damaged) > _MOST else ""
    return f"; damaged of its {len(chunks)} chunks: {', '.join(damaged[:_MOST])}{more}"


def _place(version: Version, name: str) -> tuple[str, int] | None:
    for split, entry in version.manifest.splits.items():
        for number, shard in enumerate(entry.shards):
            if shard.name == name:
                return split, number
    return None


def _damaged(version: Version, name: str, chunks: list[ShardChunk]) -> Iterator[str]:
    decoder = decoder_of(version.schema, {int(each.info.codec) for each in chunks})
    with open_plain(version.path / name, follow=False) as file:
        for number, chunk in enumerate(chunks):
            info = chunk.info
            try:
                decoder.read(file, info)
            except FormatError:
                end = info.offset_bytes + info.head_bytes + info.stored_bytes
                yield f"number {number} (bytes {info.offset_bytes} to {end})"
