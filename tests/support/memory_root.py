"""A root in a bucket in memory that has what a root of a file system has, and a folder of it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.s3.bucket_projects import move_into_bucket
from tests.model.interleavings.memory_bucket import MemoryBucket
from trainfeed.files.stores import Location
from trainfeed.files.stores import s3 as _s3
from trainfeed.versions import DatasetFolder, Version

ROOT = "s3://bucket/root"


@dataclass
class MemoryRoot:
    """The root.

    Attributes:
        bucket: The bucket, whose objects a test may change.
        state: The folder that follows it.
        gets: Objects that were asked for, in order.
    """

    bucket: MemoryBucket
    state: Path
    gets: list[str]

    def version(self, interval: str = "2024-03-01", generation: int = 1) -> Version:
        return Version.resolve(DatasetFolder(self.state, "clicks"), interval, generation)

    def shards(self, split: str = "train") -> list[str]:
        """The objects of all shards of a split."""
        return [key for key in self.bucket.objects if f"/clicks-{split}-" in key]

    def flip(self, key: str) -> None:
        """Change a bit in the middle of an object."""
        data, attributes, at = self.bucket.objects[key]
        changed = bytearray(data)
        changed[len(data) // 2] ^= 1
        self.bucket.objects[key] = bytes(changed), attributes, at


@pytest.fixture
def memory_bucket(tmp_path, monkeypatch):
    """A bucket in memory in place of the client of object stores, and a small cache."""
    bucket = MemoryBucket()
    monkeypatch.setattr(_s3, "_package", lambda: bucket)
    monkeypatch.setattr(_s3, "_connect", lambda _: bucket)
    monkeypatch.setenv("TRAINFEED_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TRAINFEED_CACHE_BYTES", "64MiB")
    return bucket


def moved(bucket: MemoryBucket, root: Path) -> MemoryRoot:
    """Give a bucket what a root has; the root stays as it is."""
    state = Path(root).with_name("state")
    shutil.copytree(root, state, symlinks=True)
    move_into_bucket(state, Location.parse(ROOT))
    gets: list[str] = []

    def stop(request, *, is_made):
        if is_made and request.name == "get":
            gets.append(request.key)

    bucket.stop = stop
    return MemoryRoot(bucket, state, gets)
