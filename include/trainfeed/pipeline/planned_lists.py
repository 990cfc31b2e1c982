"""Lists of the files of plans: their columns, their pieces, and the files that keep them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar, overload

import numpy as np
import pyarrow as pa

from trainfeed.errors import FormatError, NotFoundError
from trainfeed.files import read_plain
from trainfeed.files.stores import posix
from trainfeed.versions.arrow_list import FILE_FIELDS, MAX_LIST_BYTES, FileList
from trainfeed.versions.file_list import FACTS, Listed
from trainfeed.versions.listed_files import ListedFiles

T = TypeVar("T")

_ENDS: Final = "ends"
# The facts of a file, and the end of each of its pieces; the first begins at 0, each other where
# the one before it ends.
_SCHEMA: Final = pa.schema(
    [
        *FILE_FIELDS,
        pa.field(_ENDS, pa.list_(pa.field("item", pa.int64(), nullable=False)), nullable=False),
    ]
)
_AGAIN: Final = (
    "nothing was changed; build the interval again (in Airflow: clear the run from plan on), which"
    " writes the file again"
)


class _Piece(Protocol):
    @property
    def source(self) -> str: ...
    @property
    def end(self) -> int: ...


def list_of_plan(inputs: Mapping[str, Any], pieces: Sequence[_Piece]) -> FileList:
    """Return the list of the files of a plan.

    Args:
        inputs: Source string → planned file, with the attributes ``FACTS``.
        pieces: The pieces of all files, in order of source and position.
    """
    sources = sorted(inputs, key=str.encode)
    ends: dict[str, list[int]] = {source: [] for source in sources}
    for piece in pieces:
        ends[piece.source].append(piece.end)
    columns: dict[str, list[Any]] = {
        name: [getattr(inputs[source], name) for source in sources] for name in FACTS
    }
    return FileList.of(_SCHEMA, {"source": sources, **columns, _ENDS: list(ends.values())})


class ListedPieces(Sequence[T]):
    """The pieces of the files of a list, each made when it is asked for.

    Args:
        files: The list of a plan.
        make: Makes a piece from source, start and end.
    """

    def __init__(self, files: FileList, make: Callable[[str, int, int], T]) -> None:
        self._sources = files.sources
        self._make = make
        self.counts, self._ends = files.lists(_ENDS)
        self._owners = np.repeat(np.arange(len(files)), self.counts)
        self._starts = np.concatenate([np.zeros(1, np.int64), self._ends[:-1]])[: len(self._ends)]
        firsts = np.cumsum(self.counts) - self.counts
        self._starts[firsts[self.counts > 0]] = 0
        self._files = files

    def __len__(self) -> int:
        """Return the number of pieces."""
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        """Return one piece, or several."""
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        return self._make(
            self._sources[self._owners[index]], int(self._starts[index]), int(self._ends[index])
        )

    @property
    def span(self) -> int:
        """The bytes of all pieces."""
        return int((self._ends - self._starts).sum())

    def __iter__(self) -> Iterator[T]:
        """Yield the pieces in order."""
        sources = (self._sources[owner] for owner in self._owners)
        edges = zip(self._starts.tolist(), self._ends.tolist(), strict=True)
        for source, (start, end) in zip(sources, edges, strict=True):
            yield self._make(source, start, end)

    def wrong(self) -> Iterator[str]:
        """Yield sources whose pieces are not the file from its first byte to its end."""
        lengths = self._files.numbers("end")
        reached = np.zeros(len(lengths), np.int64)
        has_some = self.counts > 0
        reached[has_some] = self._ends[(np.cumsum(self.counts) - 1)[has_some]]
        back = self._owners[self._ends <= self._starts]
        for row in np.union1d(np.flatnonzero(reached != lengths), back).tolist():
            yield self._sources[row]

    def cut(self) -> Iterator[str]:
        """Yield sources of which there are several pieces."""
        for row in np.flatnonzero(self.counts > 1).tolist():
            yield self._sources[row]


class _Labelled(Protocol):
    @property
    def label(self) -> str: ...


def labels_of(inputs: Mapping[str, _Labelled]) -> dict[str, str]:
    """Return source → the name under which its late records are counted."""
    if not isinstance(inputs, Listed):
        return {source: planned.label for source, planned in inputs.items()}
    kinds = inputs.files.texts("kind")
    firsts = {kind: source for source, kind in zip(inputs, kinds, strict=True)}
    labels = {kind: inputs[source].label for kind, source in firsts.items()}
    return {source: labels[kind] for source, kind in zip(inputs, kinds, strict=True)}


def paths_of(inputs: Mapping[str, Any]) -> set[str]:
    """Return the paths of all files of inputs that are files."""
    if isinstance(inputs, Listed):
        return {str(path) for path in inputs.files.texts("path")}
    return {planned.path for planned in inputs.values()}


def keep_list(path: Path, files: FileList) -> None:
    """Write a list below the publication root, unless it is there; a damaged one is replaced.

    Raises:
        StorageError: The publication root refused or failed.
    """
    posix.make_public_dir(path.parent)
    if posix.create_exclusive(path, files.data, mode=0o644):
        return
    try:
        _read(path)
    except FormatError:
        posix.replace_file(path, files.data, mode=0o644)


def kept_list(path: Path, place: ListedFiles) -> FileList:
    """Return the list that a plan names.

    Raises:
        FormatError: The file is gone or damaged, or has another number of files.
        StorageError: The publication root refused or failed.
    """
    files = FileList(_read(path), _SCHEMA, str(path))
    if len(files) != place.files:
        raise FormatError(f"expected {place.files} files, as the plan says, got {len(files)}")
    return files


def _read(path: Path) -> bytes:
    try:
        data = read_plain(path, follow=True, max_bytes=MAX_LIST_BYTES)
    except NotFoundError as error:
        raise FormatError(
            f"the list of the planned files is missing; {_AGAIN}", path=str(path)
        ) from error
    if sha256(data).hexdigest() != path.name.partition(".")[0]:
        raise FormatError(
            f"expected a list of files with the digest of its name; {_AGAIN}", path=str(path)
        )
    return data
