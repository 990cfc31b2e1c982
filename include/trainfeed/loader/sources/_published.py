"""Published versions as a source; workers do not import this module or manifests."""

from __future__ import annotations

import hashlib
from pathlib import Path

from trainfeed.dataset.chunks import Chunk
from trainfeed.loader.files import DEFAULT_READ_DEADLINE_S, ShardFiles, is_network
from trainfeed.loader.sources._chunks import ShardAccess
from trainfeed.loader.sources._known_chunks import ChunkTable, Verify
from trainfeed.loader.sources._shard_source import ShardSource
from trainfeed.readers import DatasetReader

__all__ = ["layout_digest", "published_source"]


def published_source(
    dataset: DatasetReader,
    *,
    verify: Verify = Verify.FIRST,
    deadline_s: float = DEFAULT_READ_DEADLINE_S,
    max_skipped: int = 0,
    in_order: bool = True,
) -> ShardSource:
    """Return the source of a split of one or more versions.

    Versions never change, so they may be mapped where their files are local.

    Raises:
        ChecksumError: A chunk index differs from the published one.
        FormatError: A shard has another size than the manifest says, and no chunk may be skipped.
    """
    paths: list[Path] = []
    chunks: list[tuple[int, Chunk]] = []
    for version in dataset.versions:
        first_shard = len(paths)
        # The index of the version has every chunk: those that a cut shard lacks count as damaged.
        paths += version.shard_paths(dataset.split, sizes=not max_skipped)
        chunks += [
            (first_shard + chunk.shard, chunk.info) for chunk in version.chunks(dataset.split)
        ]
    table = ChunkTable.of(chunks)
    network = any(is_network(str(folder)) for folder in {path.parent for path in paths})
    return ShardSource(
        ShardFiles([str(path) for path in paths], deadline_s=deadline_s, in_order=in_order),
        table,
        digest=layout_digest(f"{dataset.content_digest}/{dataset.split}", table),
        schema=dataset.schema,
        access=ShardAccess(verify, mapped=not network, max_skipped=max_skipped),
    )


def layout_digest(content: str, table: ChunkTable) -> str:
    """Return a digest over content and its cut into chunks, 16 hex digits.

    Two sets of equal content may be cut into different chunks, and then have different orders.
    Codec and format of the chunks have no influence.
    """
    digest = hashlib.sha256(content.encode())
    digest.update(table.num_records.astype("<i8").tobytes())
    digest.update(table.raw_bytes.astype("<i8").tobytes())
    return digest.hexdigest()[:16]
