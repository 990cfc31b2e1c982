"""Writes the digits as log files: a folder per day, files of three kinds, a marker at the end.

::

    dt=2024-01-01/part-00000.txt       plain, lines end with CR LF, the last one with nothing
    dt=2024-01-01/part-00001.txt.gz    two gzip members
    dt=2024-01-01/part-00002.txt.zst   one zstd frame
    dt=2024-01-01/_SUCCESS             empty, written last
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final

import cramjam

from examples.digits.images import Digit
from examples.digits.ledger import Ledger, WrittenLine
from examples.digits.planted import PLANT_EVERY, break_line, kind_of, sound_line
from trainfeed.errors import ConflictError
from trainfeed.files.stores import Location

__all__ = ["FIRST_DAY", "NUM_DAYS", "write_days"]

FIRST_DAY: Final = date(2024, 1, 1)
NUM_DAYS: Final = 5

_MARKER: Final = "_SUCCESS"


def write_days(digits: Sequence[Digit], to: Location, ledger_path: Path) -> dict[str, Any]:
    """Write all digits, in ``NUM_DAYS`` folders, and the ledger of their lines.

    Args:
        digits: The images.
        to: Where the folders of the days lie.
        ledger_path: SQLite file of what was written.

    Returns:
        JSON: ``days``, ``files``, ``lines``, ``planted``.

    Raises:
        ConflictError: The folder of a day is there already.
    """
    counts = {"days": NUM_DAYS, "files": 0, "lines": 0, "planted": 0}
    with closing(Ledger(ledger_path)) as ledger:
        for number in range(NUM_DAYS):
            day = f"{FIRST_DAY + timedelta(days=number)}"
            of_day = _share(digits, number, NUM_DAYS)
            for source, lines in _write_day(of_day, to / f"dt={day}"):
                ledger.add(day, f"logs:dt={day}/{source}", lines)
                counts["files"] += 1
                counts["lines"] += len(lines)
                counts["planted"] += sum(line.planted is not None for line in lines)
    return counts


def _write_day(
    digits: Sequence[Digit], folder: Location
) -> Iterator[tuple[str, list[WrittenLine]]]:
    if folder.exists():
        raise ConflictError(
            f"expected no folder {folder.uri}; remove it, with its ledger, or choose another place"
        )
    for number, (suffix, line_end, pack) in enumerate(_KINDS):
        name = f"part-{number:05d}.txt{suffix}"
        data, lines = _lines(_share(digits, number, len(_KINDS)), line_end)
        packed = pack(data)
        (folder / name).write_atomic(partial(_write, data=packed))
        yield name, lines
    (folder / _MARKER).write_atomic(partial(_write, data=b""))


def _share(digits: Sequence[Digit], number: int, of: int) -> Sequence[Digit]:
    """Return part ``number`` of ``of`` equal parts that keep the order."""
    return digits[len(digits) * number // of : len(digits) * (number + 1) // of]


def _lines(digits: Sequence[Digit], line_end: bytes) -> tuple[bytes, list[WrittenLine]]:
    data, lines = bytearray(), list[WrittenLine]()
    for digit in digits:
        lines.append(WrittenLine(len(data), sound_line(digit), digit.number, None, digit.label))
        data += lines[-1].line + line_end
        if digit.number % PLANT_EVERY == 0:
            number = digit.number // PLANT_EVERY
            broken = break_line(number, digit)
            lines.append(WrittenLine(len(data), broken, digit.number, kind_of(number), None))
            data += broken + line_end
    # An empty last line without an end would be none; a sound one never is empty.
    is_open = line_end != b"\n" and lines[-1].line
    return bytes(data[: -len(line_end)] if is_open else data), lines


def _two_members(data: bytes) -> bytes:
    half = len(data) // 2
    return b"".join(gzip.compress(part, mtime=0) for part in (data[:half], data[half:]))


def _one_frame(data: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(data))


_KINDS: Final[Sequence[tuple[str, bytes, Callable[[bytes], bytes]]]] = (
    ("", b"\r\n", bytes),
    (".gz", b"\n", _two_members),
    (".zst", b"\n", _one_frame),
)


def _write(file: BinaryIO, *, data: bytes) -> None:
    file.write(data)
