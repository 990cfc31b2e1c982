"""What to do about damage, and an account of what was dropped because of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Self

from trainfeed.errors import ConfigError

__all__ = ["DamageMode", "DamagePolicy", "DamageReport", "DroppedRange"]


class DamageMode(Enum):
    """What a policy lets pass; see the constructors of ``DamagePolicy``."""

    STRICT = auto()
    TOLERATE_TRUNCATED_TAIL = auto()
    SKIP_CHUNK = auto()


@dataclass(frozen=True)
class DamagePolicy:
    """What a reader does about damage. Make one with a constructor that says what.

    No policy lets a record pass that was not verified; and an intact chunk of another layout is an
    error under each.

    Attributes:
        mode: What may pass.
        max_dropped: How many ranges may be dropped before damage is an error after all; for
            SKIP_CHUNK.
    """

    mode: DamageMode = DamageMode.STRICT
    max_dropped: int = 0

    @classmethod
    def strict(cls) -> Self:
        """Raise at the first damage."""
        return cls()

    @classmethod
    def tolerate_truncated_tail(cls) -> Self:
        """End a file where a chunk was torn off, as when its writer was killed; else raise.

        A length that was damaged looks like a torn chunk. Where the bytes behind it show that,
        because whole chunks are among them, it is an error.
        """
        return cls(DamageMode.TOLERATE_TRUNCATED_TAIL)

    @classmethod
    def skip_chunk(cls, *, max: int) -> Self:  # noqa: A002 (reads as what it is where it is used)
        """Drop damaged chunks, torn tails too, and go on with the next whole chunk.

        A damaged chunk ends where its payload fits the checksum; else where its header says, if a
        magic or the end of the file is there. A whole chunk before that place is dropped with it,
        since it may be part of a record.

        Where header and checksum of a chunk are both lost, the next whole chunk is searched for.
        If a record of the lost chunk holds a whole chunk itself, uncompressed, that is found:
        nothing tells it from a chunk of the file.

        Args:
            max: The most ranges that one scan may drop; the next one raises.

        Raises:
            ConfigError: ``max`` is negative.
        """
        if max < 0:
            raise ConfigError(f"expected max from 0, got {max}")
        return cls(DamageMode.SKIP_CHUNK, max)


@dataclass(frozen=True)
class DroppedRange:
    """Bytes of a file whose records were not given out.

    Attributes:
        path: The file, None when it has no name.
        start_bytes: Where the first dropped byte is.
        end_bytes: Where reading went on; the end of the file when no whole chunk follows.
        num_records: How many records were lost, as the chunk's header states; None where the
            header is damaged too, or more than one chunk may have been there.
        reason: What was wrong.
    """

    path: str | None
    start_bytes: int
    end_bytes: int
    num_records: int | None
    reason: str


@dataclass
class DamageReport:
    """What was dropped, in the order of reading.

    Attributes:
        dropped: The ranges. A range is one chunk, or more where headers were damaged.
    """

    dropped: list[DroppedRange] = field(default_factory=list)

    @property
    def num_chunks(self) -> int:
        """How many chunks were dropped, at least: a range counts as one."""
        return len(self.dropped)

    @property
    def num_bytes(self) -> int:
        """How many bytes of files were dropped, headers included."""
        return sum(part.end_bytes - part.start_bytes for part in self.dropped)

    @property
    def num_records(self) -> int | None:
        """How many records were lost, None when that is unknown for a range."""
        total = 0
        for part in self.dropped:
            if part.num_records is None:
                return None
            total += part.num_records
        return total
