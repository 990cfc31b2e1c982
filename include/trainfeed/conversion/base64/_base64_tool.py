"""Distributes the rows of base64 image files to one file per rank, shuffled, of equal length.

From the files in ``file_list`` the tool makes ``base64_rank_0`` … ``base64_rank_<n - 1>`` in the
same folder, and a new ``file_list`` of these names. Inputs are never changed or deleted; the
original list is kept as ``<file_list>.source``, and a later run reads that. While the files are
moved to their names, ``file_list`` names the sources, so a crash never leaves a list of an
incomplete set; the next run completes a publication that was committed.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final

from trainfeed import faults
from trainfeed.conversion._conversion_options import ConvertOptions
from trainfeed.conversion._foreign_input import iter_lines, open_input
from trainfeed.conversion.base64._base64_rows import BadRow, GoodRow, parse_row
from trainfeed.conversion.base64._rank_files import (
    MAX_RANKS,
    QUARANTINE_NAME,
    SOURCE,
    RankFiles,
    is_rank_file,
    rank_files_journal,
    write_sizes,
)
from trainfeed.conversion.sorting import RunBuilder, Spill, iter_sorted, num_samples_of
from trainfeed.datacenters import local_target
from trainfeed.errors import ConfigError, FormatError, NotFoundError
from trainfeed.paths import durable_file, read_plain
from trainfeed.storage.posix import map_errors
from trainfeed.whole_numbers import whole

__all__ = ["Base64Report", "process_base64", "read_file_list"]

_WRITE_ROWS: Final = 256
# A million names; a longer file is no list, and is not read to its end to find that out.
_MAX_LIST_BYTES: Final = 64 << 20
_DEFAULTS: Final = ConvertOptions()


@dataclass(frozen=True)
class Base64Report:
    """The result of a run of the tool.

    Attributes:
        files: Names of the rank files.
        num_samples: Good rows of the inputs.
        num_per_rank: Rows of every rank file.
        num_padded: Repeated rows, which make the rank files equally long.
        num_quarantined: Bad rows; they are in ``base64_quarantine.jsonl``.
    """

    files: tuple[str, ...]
    num_samples: int
    num_per_rank: int
    num_padded: int
    num_quarantined: int


def read_file_list(path: Path) -> list[str]:
    """Return the names in a file list, without blank lines.

    Raises:
        NotFoundError: The list does not exist.
        ConfigError: A name leads out of the folder, or is listed twice.
        FormatError: The list has more than 64 MiB.
    """
    names = []
    for line in iter_lines(BytesIO(_list_bytes(path)), max_line_bytes=4096):
        data = b"\0" if line.data is None else line.data
        name = data.decode("utf-8", "surrogateescape").strip()
        if not name:
            continue
        parts = name.split("/")
        if name.startswith("/") or "\0" in name or {"", ".", ".."} & set(parts):
            raise ConfigError(
                f"{path}, line {line.number}: expected the name of a file in the folder of the"
                f" data, got {name[:200]!r}"
            )
        names.append(name)
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ConfigError(
            f"{path}: {twice[0]!r} is listed twice, which would double its rows; remove one of"
            " the two lines"
        )
    return names


def process_base64(
    data_dir: str | os.PathLike[str],
    file_list: str,
    nranks: int,
    *,
    seed: int = 0,
    options: ConvertOptions = _DEFAULTS,
) -> Base64Report:
    """Distribute the rows of base64 image files to ranks.

    All rows are shuffled over all files; then rank ``r`` gets the ``r``-th run of ``ceil(n /
    nranks)`` rows. If rows are missing at the end, the first rows of the shuffled order are
    repeated, as often as needed, also with fewer rows than ranks. Equal inputs and seed give equal
    files.

    Args:
        data_dir: Folder of the files, the list and the results.
        file_list: Name of the list in that folder, or a path.
        nranks: Number of ranks, 1 to 100,000.
        seed: Seed of the shuffle.
        options: Memory, and the folder for temporary files.

    Returns:
        The numbers of rows, and the names of the files.

    Raises:
        ConfigError: ``nranks`` or the list is wrong.
        NotFoundError: The list, or a file in it, does not exist.
        FormatError: No row is valid; nothing was changed.
        StorageError: The file system refused.
    """
    nranks, seed = whole("nranks", nranks, 1, MAX_RANKS), whole("seed", seed)
    folder, list_path = _places(data_dir, file_list)
    journal = rank_files_journal(folder, list_path)
    with map_errors(folder):
        journal.finish()
        source, names = _source_of(list_path)
    with map_errors(folder), journal.staging() as staging:
        work = staging if options.work_dir is None else Path(local_target(options.work_dir))
        with Spill.anonymous(work) as spill:
            num_bad = _read_rows(folder, names, staging, RunBuilder(spill, seed, 0, options))
            num_samples = num_samples_of([spill])
            if not num_samples:
                raise FormatError(
                    f"expected at least one row of base64 and label in {len(names)} files, got"
                    f" {num_bad} bad ones; nothing was changed",
                    path=str(list_path),
                )
            per_rank = -(-num_samples // nranks)
            rows = _padded(spill, num_samples, per_rank * nranks, options.memory_bytes)
            files = RankFiles(list_path, nranks, has_bad_rows=num_bad > 0, source=source)
            for name in files.ranks:
                _write_rows(staging / name, islice(rows, per_rank))
            write_sizes(staging, files.ranks)
        journal.publish(staging, files)
    padded = per_rank * nranks - num_samples
    return Base64Report(files.ranks, num_samples, per_rank, padded, num_bad)


def _places(data_dir: str | os.PathLike[str], file_list: str) -> tuple[Path, Path]:
    """Return the folder of the data, and the path of the list: in the folder, or as given."""
    folder = Path(local_target(data_dir))
    list_path = folder / local_target(file_list)
    with map_errors(folder):
        if not list_path.exists() and Path(file_list).exists():
            list_path = Path(file_list)
        if not folder.is_dir():
            raise NotFoundError(f"{folder}: expected the folder of the files, there is none")
    return folder, list_path


def _source_of(list_path: Path) -> tuple[bytes, list[str]]:
    """Return the list of inputs as bytes and as names, also if the present list names results."""
    kept = list_path.with_name(list_path.name + SOURCE)
    names = read_file_list(list_path)
    path = list_path
    if names and all(map(is_rank_file, names)):
        if not kept.exists():
            raise ConfigError(
                f"{list_path} lists files that this tool has made, and {kept}, the list of their"
                " sources, is missing; list the source files"
            )
        path, names = kept, read_file_list(kept)
    if results := [name for name in names if is_rank_file(name)]:
        raise ConfigError(
            f"{path}: {results[0]!r} is the name of a result, which would be replaced"
        )
    return _list_bytes(path), names


def _list_bytes(path: Path) -> bytes:
    return read_plain(path, follow=True, max_bytes=_MAX_LIST_BYTES)


def _read_rows(folder: Path, names: Sequence[str], staging: Path, runs: RunBuilder) -> int:
    num_bad = 0
    with ExitStack() as closing:
        quarantine: BinaryIO | None = None
        for name, number, row in _iter_rows(folder, names):
            if isinstance(row, GoodRow):
                runs.add(row.dump())
                continue
            if quarantine is None:
                quarantine = closing.enter_context(durable_file(staging / QUARANTINE_NAME))
            num_bad += 1
            quarantine.write(row.dump(name, number))
    runs.flush()
    return num_bad


def _iter_rows(folder: Path, names: Iterable[str]) -> Iterator[tuple[str, int, GoodRow | BadRow]]:
    for name in names:
        with open_input(folder / name) as file:
            for line in iter_lines(file):
                # Blank lines are skipped: editors leave one at the end.
                if line.data is None or line.data.strip():
                    yield name, line.number, parse_row(line.data)


def _padded(spill: Spill, num_samples: int, total: int, memory_bytes: int) -> Iterator[bytes]:
    """Yield all rows in order, then the first ones again, up to ``total`` rows."""
    left = total
    while left:
        wanted = min(left, num_samples)
        for samples, start, stop in iter_sorted([spill], 0, wanted, memory_bytes=memory_bytes):
            for low in range(start, stop, _WRITE_ROWS):
                for row in samples.rows(low, min(low + _WRITE_ROWS, stop)):
                    yield bytes(row)
        left -= wanted


def _write_rows(path: Path, rows: Iterable[bytes]) -> None:
    with durable_file(path) as file:
        file.writelines(rows)
    faults.point("base64.after_file")
