"""The entry of a shard in a manifest, and the comparison of its file with it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final, NamedTuple

import xxhash

from trainfeed.datacenters import local_source
from trainfeed.errors import FormatError
from trainfeed.paths import FilePath, open_plain
from trainfeed.storage.posix import map_errors

__all__ = ["ShardInfo"]

_BLOCK_BYTES: Final = 1 << 20


class ShardInfo(NamedTuple):
    """The entry of a shard in a manifest.

    Attributes:
        name: File name.
        num_records: Number of records.
        num_bytes: Size of the file.
        digest: XXH3-128 of the file, 32 hex digits.
    """

    name: str
    num_records: int
    num_bytes: int
    digest: str

    def to_json(self) -> dict[str, Any]:
        """Return the entry as JSON for a manifest."""
        return {
            "name": self.name,
            "records": self.num_records,
            "bytes": self.num_bytes,
            "xxh3_128": self.digest,
        }

    @classmethod
    def from_json(cls, value: Any) -> ShardInfo:
        """Read the JSON of ``to_json``.

        Raises:
            FormatError: ``value`` is no such entry.
        """
        try:
            info = cls(value["name"], value["records"], value["bytes"], value["xxh3_128"])
        except (KeyError, TypeError) as error:
            raise FormatError(f"expected the account of a shard, got {value!r}") from error
        texts, numbers = (info.name, info.digest), (info.num_records, info.num_bytes)
        if not all(type(text) is str for text in texts) or not all(
            type(number) is int and number >= 0 for number in numbers
        ):
            raise FormatError(f"expected the account of a shard, got {value!r}")
        return info

    def problem(self, folder: FilePath, *, deep: bool) -> str | None:
        """Compare the file in a folder with the entry; return the problem, or None.

        Args:
            folder: Folder of the shard.
            deep: Whether to read the file and compare its digest, too.
        """
        path = Path(local_source(folder), self.name)
        if not path.is_file():
            return f"{self.name}: missing"
        with map_errors(path):
            num_bytes = path.stat().st_size
        if num_bytes != self.num_bytes:
            return f"{self.name}: expected {self.num_bytes} bytes, got {num_bytes}"
        if deep and (digest := _digest_of(path)) != self.digest:
            return f"{self.name}: expected digest {self.digest}, got {digest}"
        return None


def _digest_of(path: Path) -> str:
    digest = xxhash.xxh3_128()
    buffer = memoryview(bytearray(_BLOCK_BYTES))
    with open_plain(path, follow=True, buffering=0) as file:
        while num_bytes := os.readv(file.fileno(), [buffer]):
            digest.update(buffer[:num_bytes])
    return digest.hexdigest()
