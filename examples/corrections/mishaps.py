"""What disks and people do to files: a bit that flips, a folder that somebody deletes."""

from __future__ import annotations

import json
import shutil
from datetime import date
from typing import Final

from examples.year.places import Places

__all__ = ["content_digest", "flip_bit", "lose_landing"]

_BIT: Final = 0b100


def flip_bit(places: Places, day: date) -> str:
    """Flip a bit in the middle of the first shard of a day; return the file's name."""
    version = places.versions / str(day) / "g0001"
    shard = min(version.glob("flights-train-*"))
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= _BIT
    shard.write_bytes(data)
    return shard.name


def lose_landing(places: Places) -> str:
    """Delete the landing folder of a partition, with the files of all days; return what went."""
    folder = next(iter(sorted(places.landing.glob("flights/*/p=2"))))
    number = sum(1 for _ in folder.iterdir())
    shutil.rmtree(folder)
    return f"…/{folder.relative_to(places.folder)} with {number} files"


def content_digest(places: Places, day: date, generation: str) -> str:
    """Return the digest of the samples of a version, as its manifest has it."""
    manifest = places.versions / str(day) / generation / "MANIFEST.json"
    return str(json.loads(manifest.read_bytes())["content_digest"])
