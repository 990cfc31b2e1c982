"""Writes impressions as log files of libFM lines: a folder per day, a file per log, a marker last.

::

    dt=2019-11-24/random-all.libfm       plain, lines end with LF
    dt=2019-11-24/bts-men.libfm.gz       a gzip member per copy
    dt=2019-11-24/bts-women.libfm.zst    a zstd frame per copy
    dt=2019-11-24/_SUCCESS               empty, written last
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final

import cramjam

from examples.ctr.feature_numbers import MEASURE, FeatureNumbers
from examples.ctr.impressions import LOGS, Impression, Log, read_log
from examples.ctr.ledger import DayLedger
from examples.ctr.planted import PLANT_EVERY, break_line, kind_of
from trainfeed.errors import ConflictError
from trainfeed.files.stores import Location, posix

__all__ = ["DAYS", "write_days"]

DAYS: Final = tuple(f"2019-11-{day}" for day in range(24, 31))

_MARKER: Final = "_SUCCESS"


def write_days(
    data: Path, to: Location, ledger_path: Path, *, days: Sequence[str] = DAYS, copies: int = 1
) -> Mapping[str, Any]:
    """Write days of impressions, and the ledger of what a reader has to find.

    Args:
        data: The folder into which obp was installed.
        to: Where the folders of the days lie.
        ledger_path: JSON file of what was written, per day; see ``DayLedger``.
        days: Which days.
        copies: How often every line is written, for logs of any size.

    Returns:
        The ledger.

    Raises:
        ConfigError: The package is not installed.
        ConflictError: The folder of a day is there already.
    """
    numbers = FeatureNumbers(data)
    logs = {log: list(read_log(data, log)) for log in LOGS}
    ledger = {}
    for day in days:
        rows = {log: [row for row in found if row.day == day] for log, found in logs.items()}
        ledger[day] = _write_day(rows, numbers, to / f"dt={day}", copies)
    text = json.dumps(ledger, indent=1) + "\n"
    posix.replace_file(ledger_path, text.encode())
    return ledger


def _write_day(
    rows: Mapping[Log, list[Impression]], numbers: FeatureNumbers, folder: Location, copies: int
) -> dict[str, Any]:
    if folder.exists():
        raise ConflictError(f"expected no folder {folder.uri}; remove it, or choose another place")
    account = DayLedger()
    for log, impressions in rows.items():
        suffix, pack = _PACKED.get(log, ("", bytes))
        packed = pack(b"".join(_lines(log, impressions, numbers, account)))
        file = folder / f"{log.policy}-{log.campaign}.libfm{suffix}"
        file.write_atomic(partial(_write, data=packed, copies=copies))
    (folder / _MARKER).write_atomic(partial(_write, data=b"", copies=1))
    return account.as_json(copies)


def _lines(
    log: Log, impressions: list[Impression], numbers: FeatureNumbers, account: DayLedger
) -> Iterator[bytes]:
    dictionary = {
        item: {**dict.fromkeys(categories, 1.0), MEASURE: measure}
        for item, measure, categories in numbers.dictionary()
    }
    for number, row in enumerate(impressions):
        features = numbers.of_line(log, row)
        account.add_sample(row.click, features | dictionary[max(features)])
        line = b"%d %s" % (row.click, b" ".join(map(_pair, sorted(features.items()))))
        yield line + b"\n"
        if number % PLANT_EVERY == 0:
            planted = number // PLANT_EVERY
            account.add_planted(kind_of(planted))
            yield break_line(planted, line) + b"\n"


def _pair(feature: tuple[int, float]) -> bytes:
    index, value = feature
    return b"%d:%g" % (index, value)


def _one_frame(data: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(data))


_PACKED: Final[Mapping[Log, tuple[str, Callable[[bytes], bytes]]]] = {
    Log("bts", "men"): (".gz", partial(gzip.compress, mtime=0)),
    Log("bts", "women"): (".zst", _one_frame),
}


def _write(file: BinaryIO, *, data: bytes, copies: int) -> None:
    file.writelines(data for _ in range(copies))
