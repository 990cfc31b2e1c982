"""Base64 image files: rows checked, shuffled, distributed to a file for each rank, and read."""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from hashlib import sha256
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from trainfeed.conversion.foreign_input import Line, iter_lines, open_input, read_small
from trainfeed.conversion.images import ImageOptions, ImageSample, image_sample, require_pillow
from trainfeed.conversion.journal import Journal
from trainfeed.conversion.record_files import ConvertOptions
from trainfeed.conversion.sorting import RunBuilder, iter_sorted, num_samples_of
from trainfeed.conversion.spill import Spill
from trainfeed.core import canonical_json, faults
from trainfeed.core.datacenters import local_source, local_target
from trainfeed.core.whole_numbers import rank_of, whole
from trainfeed.errors import ConfigError, FormatError, NotFoundError
from trainfeed.files import durable_file, read_plain
from trainfeed.files.records import RecordFile
from trainfeed.files.stores.posix import map_errors, replace_file

# --- Rows of base64 image files: ``base64<TAB>label`` or ``label<TAB>base64``

_LABEL: Final = re.compile(rb"[+-]?[0-9]{1,19}")
_INT64: Final = 1 << 63
_SHOWN_BYTES: Final = 256


class GoodRow(NamedTuple):
    """A valid row.

    Attributes:
        image: Base64 text.
        label: A number that fits an int64.
    """

    image: bytes
    label: int

    def dump(self) -> bytes:
        """Return the row as the tool writes it, with the end of line."""
        return b"%s\t%d\n" % (self.image, self.label)


class BadRow(NamedTuple):
    """An invalid row, for the quarantine."""

    reason: str
    data: bytes

    def dump(self, file: str, number: int) -> bytes:
        """Return a line of the quarantine: place of the row, reason, and its first bytes."""
        raw = self.data[:_SHOWN_BYTES].decode("utf-8", "backslashreplace")
        value = {"file": file, "line": number, "reason": self.reason, "raw": raw}
        return json.dumps(value).encode() + b"\n"


Row = GoodRow | BadRow


def parse_row(data: bytes | None) -> Row:
    """Parse a row.

    The label is the column that is an integer; the other column must be base64. If both columns
    could be either, the first one is the image.

    Args:
        data: The line without its end; None for a line that is too long.
    """
    if data is None:
        return BadRow("the line is too long", b"")
    columns = data.strip(b" ").split(b"\t")
    if len(columns) != 2:
        return BadRow(f"expected 2 columns, got {len(columns)}", data)
    first, second = (column.strip(b" ") for column in columns)
    for image, label in ((first, second), (second, first)):
        if _is_label(label) and _is_base64(image):
            return GoodRow(image, int(label))
    if not (_is_label(first) or _is_label(second)):
        return BadRow("no column is an integer label", data)
    return BadRow("the column beside the label is no base64", data)


def _is_label(text: bytes) -> bool:
    return _LABEL.fullmatch(text) is not None and -_INT64 <= int(text) < _INT64


def _is_base64(text: bytes) -> bool:
    try:
        return bool(base64.b64decode(text, validate=True))
    except binascii.Error:
        return False


# --- Publication of the files of all ranks together, with the list that names them

MAX_RANKS: Final = 100_000
QUARANTINE_NAME: Final = "base64_quarantine.jsonl"
SOURCE: Final = ".source"
_SIZES_NAME: Final = "base64_sizes.json"
_PREFIX: Final = "base64"
_HEAD: Final = "ranks.json"
_RANK_FILE: Final = re.compile(r"base64_rank_[0-9]+")


def rank_file_name(rank: int) -> str:
    """Return the name of a rank's file."""
    return f"base64_rank_{rank}"


def is_rank_file(name: str) -> bool:
    """Return whether a file of this name holds the rows of a rank."""
    return _RANK_FILE.fullmatch(name) is not None


@dataclass(frozen=True)
class RankFiles:
    """The files of all ranks; the list of their names is the announcement for readers.

    Attributes:
        list_path: The list; None if it is not the list of this run.
        num_ranks: Number of files of ranks.
        has_bad_rows: Whether there is a quarantine.
        source: The list of the sources, as bytes; empty for a publication that is only completed.
    """

    list_path: Path | None
    num_ranks: int
    has_bad_rows: bool
    source: bytes = b""

    @property
    def ranks(self) -> tuple[str, ...]:
        """The names of the files of the ranks."""
        return tuple(map(rank_file_name, range(self.num_ranks)))

    @property
    def names(self) -> Sequence[str]:
        """The names of all files."""
        return (*self.ranks, _SIZES_NAME, *([QUARANTINE_NAME] if self.has_bad_rows else []))

    def owns(self, name: str) -> bool:
        """Whether a file of this name is one of a rank, the list of their sizes, or quarantine."""
        return name in {QUARANTINE_NAME, _SIZES_NAME} or is_rank_file(name)

    def save(self, staging: Path) -> None:
        """Write the file from which a later run continues the publication."""
        head = {
            "list": None if self.list_path is None else _list_id(self.list_path),
            "ranks": self.num_ranks,
            "bad_rows": self.has_bad_rows,
        }
        with durable_file(staging / _HEAD) as file:
            file.write(canonical_json.dumps(head))

    def prepare(self, output: Path) -> None:  # noqa: ARG002
        """Make the list name the sources until all files have their names."""
        if self.list_path is not None:
            replace_file(self.list_path.with_name(self.list_path.name + SOURCE), self.source)
            replace_file(self.list_path, self.source)

    def withdraw(self, output: Path) -> None:
        """Do nothing: ``prepare`` has changed the list before the commit."""

    def announce(self, commit: Path, output: Path) -> None:  # noqa: ARG002
        """Make the list name the files of the ranks; an unknown list is unchanged."""
        if self.list_path is not None:
            replace_file(self.list_path, "".join(f"{name}\n" for name in self.ranks).encode())
        (commit / _HEAD).unlink()


@dataclass(frozen=True)
class _Sizes:
    """Name of each file of a rank → its size."""

    bytes: dict[str, int]


_SIZES: Final = RecordFile(
    _Sizes,
    "the sizes of the files of all ranks",
    "nothing was read; run trainfeed process-base64 again",
    max_bytes=canonical_json.MAX_BYTES,
)


def write_sizes(staging: Path, ranks: Sequence[str]) -> None:
    """Write the sizes of the files of all ranks: a row that is lost at an end leaves no trace.

    Raises:
        StorageError: The file system refused.
    """
    sizes = {name: (staging / name).stat().st_size for name in ranks}
    with durable_file(staging / _SIZES_NAME) as file:
        file.write(_SIZES.dumps(_Sizes(sizes)))


def require_size(path: Path) -> None:
    """Compare a file of a rank with the sizes beside it; files of before have none.

    Raises:
        FormatError: The file has another size, or the sizes are damaged.
        NotFoundError: There is no file of the rank.
        StorageError: The file system refused.
    """
    if (sizes := _SIZES.read(path.with_name(_SIZES_NAME))) is None:
        return
    wanted = sizes.bytes.get(path.name)
    with map_errors(path):
        found = path.stat().st_size
    if found != wanted:
        raise FormatError(
            f"expected {wanted} bytes, as {_SIZES_NAME} says, got {found}: the file was changed"
            f" after all of them were complete; {_SIZES.remedy}",
            path=str(path),
        )


def rank_files_journal(folder: Path, list_path: Path) -> Journal:
    """Return the journal of publications in a folder, for a run with this list."""

    def load(commit: Path) -> RankFiles | None:
        if not (commit / _HEAD).exists():
            return None
        head = _head_of(commit / _HEAD)
        # The commit folder stores a digest of the list's path, not the path: a path from the
        # folder of the data must not decide which file is written.
        is_known = head["list"] == _list_id(list_path)
        return RankFiles(list_path if is_known else None, head["ranks"], head["bad_rows"])

    return Journal(folder, _PREFIX, load)


def _head_of(path: Path) -> dict[str, Any]:
    head = canonical_json.loads(read_small(path), path=str(path))
    is_ours = isinstance(head, dict) and head.keys() == {"list", "ranks", "bad_rows"}
    if not is_ours or type(head["ranks"]) is not int or not 1 <= head["ranks"] <= MAX_RANKS:
        raise FormatError(
            "expected the list of rank files that process-base64 writes, got"
            f" {str(head)[:200]}; nothing was changed; move {path.parent} away, and distribute the"
            " rows again",
            path=str(path),
        )
    return dict(head)


def _list_id(path: Path) -> str:
    return sha256(os.fsencode(path.absolute())).hexdigest()


# --- Distributes the rows of base64 image files to one file per rank, shuffled, of equal length

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


# --- Reads the file of one rank that ``process_base64`` has written

_IMAGE_DEFAULTS: Final = ImageOptions()


def base64_reader(
    data_dir: str | os.PathLike[str],
    *,
    rank: int = 0,
    world_size: int = 1,
    file_list: str = "file_list.txt",
    images: ImageOptions = _IMAGE_DEFAULTS,
) -> Callable[[], Iterator[ImageSample]]:
    """Make a reader of the images of one rank.

    Args:
        data_dir: The folder with the output of ``process_base64``.
        rank: Number of the rank.
        world_size: Number of ranks; there must be as many files.
        file_list: Name of the list in the folder.
        images: How images are checked and converted.

    Returns:
        A reader of ``(image, label)``: float32 of shape ``(3, height, width)``, ``(value - mean) /
        scale``, and an int. The reader raises FormatError with file and line at a damaged row, and
        before the first one if the file has another size than when it was written.

    Raises:
        ConfigError: The list does not name ``world_size`` files of ranks, or Pillow is not
            installed.
        NotFoundError: The list does not exist.
    """
    require_pillow()
    if images.flip_seed is not None:
        images = replace(images, flip_seed=whole("flip_seed", images.flip_seed))
    folder = Path(local_source(data_dir))
    names = read_file_list(folder / file_list)
    rank, world_size = rank_of(rank, world_size)
    if names != [rank_file_name(each) for each in range(world_size)]:
        raise ConfigError(
            f"expected {folder / file_list} to list {world_size} files, {rank_file_name(0)} and so"
            f" on, got {len(names)}: {names[:3]}; run trainfeed process-base64"
            f" --nranks {world_size}"
        )
    path = folder / names[rank]

    def read() -> Iterator[ImageSample]:
        require_size(path)
        with open_input(path) as file:
            for line in iter_lines(file):
                yield _decode(path, line, images)

    return read


def _decode(path: Path, line: Line, images: ImageOptions) -> ImageSample:
    try:
        row = _good_row(line.data)
        return image_sample(base64.b64decode(row.image), row.label, line.number, images)
    except (FormatError, binascii.Error) as error:
        raise FormatError(
            f"line {line.number}: {error}", path=str(path), offset_bytes=line.offset_bytes
        ) from error


def _good_row(data: bytes | None) -> GoodRow:
    row = parse_row(data)
    if isinstance(row, BadRow):
        raise FormatError(row.reason)
    return row
