"""Publication of the files of all ranks together, with the list that names them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from trainfeed import canonical_json
from trainfeed.conversion._foreign_input import read_small
from trainfeed.conversion._journal import Journal
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.paths import durable_file
from trainfeed.storage.posix import map_errors, replace_file

__all__ = [
    "MAX_RANKS",
    "QUARANTINE_NAME",
    "SOURCE",
    "RankFiles",
    "is_rank_file",
    "rank_file_name",
    "rank_files_journal",
    "require_size",
    "write_sizes",
]

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


def write_sizes(staging: Path, ranks: Sequence[str]) -> None:
    """Write the sizes of the files of all ranks: a row that is lost at an end leaves no trace.

    Raises:
        StorageError: The file system refused.
    """
    sizes = {name: (staging / name).stat().st_size for name in ranks}
    with durable_file(staging / _SIZES_NAME) as file:
        file.write(canonical_json.seal(canonical_json.dumps({"bytes": sizes}).removesuffix(b"}")))


def require_size(path: Path) -> None:
    """Compare a file of a rank with the sizes beside it; files of before have none.

    Raises:
        FormatError: The file has another size, or the sizes are damaged.
        NotFoundError: There is no file of the rank.
        StorageError: The file system refused.
    """
    place, again = path.with_name(_SIZES_NAME), "run trainfeed process-base64 again"
    try:
        data = read_small(place)
    except NotFoundError:
        return
    try:
        canonical_json.require_intact(data, path=str(place))
        wanted = canonical_json.loads(data, path=str(place))["bytes"].get(path.name)
    except (AttributeError, FormatError, KeyError, TypeError) as error:
        raise FormatError(
            f"expected the sizes of the files of all ranks: {error}; nothing was read; {again}",
            path=str(place),
        ) from error
    with map_errors(path):
        found = path.stat().st_size
    if found != wanted:
        raise FormatError(
            f"expected {wanted} bytes, as {_SIZES_NAME} says, got {found}: the file was changed"
            f" after all of them were complete; nothing was read; {again}",
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
