"""Sets at a store: files of this machine behind a store that counts what is read of it."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from pathlib import Path

from tests.unit.loader.conftest import SCHEMA
from trainfeed.errors import StorageError
from trainfeed.files.stores import Location
from trainfeed.files.stores.local import LocalFileSystem
from trainfeed.loader import RecordFiles
from trainfeed.loader.chunk_samples import ShardSource
from trainfeed.loader.chunks import ShardAccess
from trainfeed.recordio import RecordIndex
from trainfeed.remote.shards import CachePlace, RemoteShards
from trainfeed.versions.chunk_index import ChunkTable


class CountedFile(io.FileIO):
    """A file that writes down each range, and gives what the test has told its store to give."""

    def __init__(self, path, log):
        super().__init__(path)
        self.log = log

    def readinto(self, buffer):
        start = self.tell()
        if self.is_told("fail"):
            raise StorageError("the store is away for a moment")
        count = super().readinto(buffer)
        line = f"{os.getpid()} {Path(self.name).name} {start} {count}\n"
        with Path(self.log).open("a") as file:
            file.write(line)
        if count and self.is_told("flip"):
            memoryview(buffer)[count // 2] ^= 1
        return count

    def is_told(self, kind):
        """Take one of the faults that a test has laid out; of several threads one gets it."""
        try:
            (Path(self.log).parent / f"wrong-{kind}").unlink()
        except FileNotFoundError:
            return False
        return True


@dataclass(frozen=True)
class CountedStore(LocalFileSystem):
    log: str = ""

    def open_read(self, path):
        return CountedFile(path, self.log)


@dataclass
class Afar:
    """A set of images, read from afar and as it is."""

    files: object
    folder: Path
    place: CachePlace

    def shards(self, **options):
        paths = self.files.paths
        indexes = [RecordIndex.load(path) for path in paths]
        chunks = [(number, info) for number, index in enumerate(indexes) for info in index.chunks]
        store = CountedStore(str(self.folder / "log"))
        parts = [("0" * 32, len(chunks))]
        return RemoteShards(
            [Location(store, path) for path in paths],
            ChunkTable.of(chunks),
            parts,
            self.place,
            **options,
        )

    def source(self, digest):
        shards = self.shards()
        return ShardSource(shards, shards.table, digest=digest, schema=SCHEMA, access=ShardAccess())

    def reads(self):
        """The ranges that were read: process, file, start, length."""
        path = self.folder / "log"
        lines = path.read_text().splitlines() if path.exists() else []
        return [tuple(line.split()) for line in lines]

    def forget(self):
        (self.folder / "log").unlink(missing_ok=True)


class AfarImages(RecordFiles):
    """The images as a loader takes them, read from afar."""

    def __init__(self, afar):
        super().__init__(str(Path(afar.files.paths[0]).parent / "images-*"), SCHEMA)
        self.afar = afar

    def source(self, **_):
        return self.afar.source(super().source().digest)
