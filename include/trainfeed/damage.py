"""What to do about damage in record files, and an account of what was dropped because of it.

For RecordIO and TFRecord alike. What is found whole or damaged is a chunk of RecordIO, which holds
many records, or a record of TFRecord; both are called a piece here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple, Self

from trainfeed.errors import ConfigError, FormatError, TruncatedError

__all__ = [
    "DamageGap",
    "DamageMode",
    "DamagePolicy",
    "DamageReport",
    "DroppedRange",
    "SearchBudget",
]

# What looking for whole pieces may cost above reading an intact file: this multiple of it, and this
# much for small files. A place that looks like a piece costs more than its bytes.
_MAX_WORK_RATIO: Final = 64
_MIN_WORK_BYTES: Final = 1 << 30
_CANDIDATE_WORK_BYTES: Final = 4096


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
        """End a file where a piece was torn off, as when its writer was killed; else raise.

        A length that was damaged looks like a torn piece. Where the bytes behind it show that,
        because whole pieces are among them, it is an error.
        """
        return cls(DamageMode.TOLERATE_TRUNCATED_TAIL)

    @classmethod
    def skip_chunk(cls, *, max: int) -> Self:  # noqa: A002 (reads as what it is where it is used)
        """Drop damaged pieces, torn tails too, and go on with the next whole piece.

        A damaged piece ends where its content fits the checksum; else where its header says, if
        another header or the end of the file is there. A whole piece before that place is dropped
        with it, since it may be part of a record.

        Where header and checksum of a piece are both lost, the next whole piece is searched for. If
        a record of the lost one holds a whole piece itself, uncompressed, that is found: nothing
        tells it from a piece of the file.

        Args:
            max: The most ranges that one scan may drop; the next one raises.

        Raises:
            ConfigError: ``max`` is negative.
        """
        if max < 0:
            raise ConfigError(f"expected max from 0, got {max}")
        return cls(DamageMode.SKIP_CHUNK, max)

    @property
    def skips(self) -> bool:
        """Whether reading may go on behind damage that is no torn tail."""
        return self.mode is DamageMode.SKIP_CHUNK

    def require_drop(self, error: FormatError, report: DamageReport) -> None:
        """Raise ``error`` unless what it is about may be dropped, as far as the error says.

        Args:
            error: What is wrong. It gets a word on how much was dropped before, if that is why.
            report: What was dropped before.

        Raises:
            FormatError: That very error.
        """
        if self.mode is DamageMode.TOLERATE_TRUNCATED_TAIL and isinstance(error, TruncatedError):
            return
        if not self.skips:
            raise error
        num_dropped = len(report.dropped)
        if num_dropped >= self.max_dropped:
            allowance = f"{num_dropped} ranges were dropped before, {self.max_dropped} may be"
            error.args = (f"{error.args[0]}; {allowance}",)
            raise error


class DamageGap(NamedTuple):
    """What is known about a damaged place.

    Attributes:
        end_bytes: Where the next piece starts, or the file ends.
        num_records: How many records the piece has, None if nothing that says so can be believed.
        is_whole: Of a chunk: the payload is all there and fits its checksum, so another word of the
            header is damaged.
    """

    end_bytes: int
    num_records: int | None = None
    is_whole: bool = False


@dataclass(frozen=True)
class DroppedRange:
    """Bytes of a file whose records were not given out.

    Attributes:
        path: The file, None when it has no name.
        start_bytes: Where the first dropped byte is. In a compressed TFRecord file bytes of its
            content are counted.
        end_bytes: Where reading went on; the end of the file when nothing whole follows. Of a
            compressed TFRecord file the end of what could be inflated so far: nothing behind it is
            read.
        num_records: How many records were lost, as far as headers state; None where the header is
            damaged too, or more than one piece may have been there.
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
        dropped: The ranges. A range is one piece, or more where headers were damaged.
    """

    dropped: list[DroppedRange] = field(default_factory=list)

    def drop(self, path: str | None, start_bytes: int, gap: DamageGap, error: FormatError) -> None:
        """Account for a damaged place of a file, and for what was wrong with it."""
        reason = str(error.args[0])
        self.dropped.append(DroppedRange(path, start_bytes, gap.end_bytes, gap.num_records, reason))

    @property
    def num_chunks(self) -> int:
        """How many pieces were dropped, at least: a range counts as one."""
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


class SearchBudget:
    """How much of a file may be looked at in search of whole pieces.

    A file can be made of places that look like pieces, each of which has content to be verified:
    without an end to it, that takes hours.

    Args:
        file_bytes: The size of the file.
        piece: What is searched for, in messages.
    """

    def __init__(self, file_bytes: int, piece: str) -> None:
        self._left_bytes = _MIN_WORK_BYTES + _MAX_WORK_RATIO * file_bytes
        self._piece = piece

    def spend(self, num_bytes: int) -> None:
        """Account for bytes that are looked at.

        Raises:
            FormatError: That is more than damage can ask for.
        """
        self._left_bytes -= num_bytes
        if self._left_bytes < 0:
            raise FormatError(
                f"expected few damaged places, got more places that look like a {self._piece}"
                " than can be tried; restore the file, or cut it before the damage"
            )

    def spend_candidate(self) -> None:
        """Account for a place that looks like a piece.

        Raises:
            FormatError: As for ``spend``.
        """
        self.spend(_CANDIDATE_WORK_BYTES)
