"""Lists of many source files: an Arrow file of its own, which a plan or manifest names by digest.

JSON takes 372 bytes for each file of a plan, and every process that reads them holds objects of
some 7 KiB a file. A list has a row per file, in the order of the source strings; a process holds
the bytes and the source strings, and makes the other facts of a file when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, Mapping, Sequence, ValuesView
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, overload

from trainfeed.versions.listed_files import ListedFiles

if TYPE_CHECKING:
    from trainfeed.versions.arrow_list import FileList

T = TypeVar("T")

# Up to so many files stand in the plan and in the manifest themselves: 1.5 and 2.7 MB of JSON.
LISTED_ABOVE: Final = 4096
# The facts of a file, besides its source string; it starts at byte 0.
FACTS: Final = (
    "end",
    "kind",
    "connection",
    "path",
    "compression",
    "timestamp_ms",
    "modified_ms",
    "file_id",
    "checksum",
    "layouts",
)
# Rows of a block that is made into objects at once.
_BLOCK_ROWS: Final = 1024
# Rows that are kept beside the one that was asked for.
_NEAR_ROWS: Final = 64


class KeptList:
    """A list by its place; its file is read when the list is first asked for.

    Args:
        place: Digest and number of files.
        read: Returns the list.
    """

    def __init__(self, place: ListedFiles, read: Callable[[], FileList]) -> None:
        self.place = place
        self._read = read

    @classmethod
    def of(cls, files: FileList) -> KeptList:
        """Return the place of a list that is in memory."""
        return cls(files.place, lambda: files)

    @cached_property
    def files(self) -> FileList:
        """The list.

        Raises:
            FormatError: The list is gone or damaged.
            StorageError: It cannot be read.
        """
        return self._read()


class ListedNames(Sequence[str]):
    """The source strings of a list, sorted by their UTF-8 bytes."""

    def __init__(self, kept: KeptList) -> None:
        self._kept = kept

    @property
    def _names(self) -> list[str]:
        return self._kept.files.sources

    def __len__(self) -> int:
        """Return the number of files."""
        return self._kept.place.files

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        """Return one source string, or several."""
        return self._names[index]

    def __iter__(self) -> Iterator[str]:
        """Yield the source strings."""
        return iter(self._names)

    def __eq__(self, other: object) -> bool:
        """Whether a sequence has the same source strings."""
        return isinstance(other, Sequence) and self._names == list(other)

    __hash__ = None  # type: ignore[assignment]


class _Items(ItemsView[str, T]):
    _mapping: Listed[T]

    def __iter__(self) -> Iterator[tuple[str, T]]:
        return zip(self._mapping, self._mapping.each(), strict=True)


class _Values(ValuesView[T]):
    _mapping: Listed[T]

    def __iter__(self) -> Iterator[T]:
        return self._mapping.each()


class Listed(Mapping[str, T], Generic[T]):
    """Source string → a value that is made from the row of its file when it is asked for.

    Args:
        kept: The list, which is read when it is first asked for.
        names: The columns from which a value is made.
        make: Makes a value from name → value of these columns.
    """

    def __init__(
        self, kept: KeptList, names: Sequence[str], make: Callable[[dict[str, Any]], T]
    ) -> None:
        self._kept = kept
        self._names = names
        self._make = make
        self._near: tuple[int, list[dict[str, Any]]] = (-1, [])

    @property
    def files(self) -> FileList:
        """The list."""
        return self._kept.files

    @cached_property
    def _columns(self) -> Any:
        return self.files.columns(self._names)

    def __len__(self) -> int:
        """Return the number of files."""
        return self._kept.place.files

    def __iter__(self) -> Iterator[str]:
        """Yield the source strings, in order of their UTF-8 bytes."""
        return iter(self.files.sources)

    def __contains__(self, source: object) -> bool:
        """Return whether the list has a source."""
        if not isinstance(source, str):
            return False
        try:
            self.files.index(source)
        except KeyError:
            return False
        return True

    def __getitem__(self, source: str) -> T:
        """Return the value of a source."""
        number, row = divmod(self.files.index(source), _NEAR_ROWS)
        # A task asks for one file after another, and for each several times.
        block, rows = self._near
        if block != number:
            rows = self._columns.slice(number * _NEAR_ROWS, _NEAR_ROWS).to_pylist()
            self._near = number, rows
        return self._make(rows[row])

    def each(self) -> Iterator[T]:
        """Yield the values of all files, in order."""
        for first in range(0, len(self), _BLOCK_ROWS):
            yield from map(self._make, self._columns.slice(first, _BLOCK_ROWS).to_pylist())

    def items(self) -> ItemsView[str, T]:
        """Return source strings with their values."""
        return _Items(self)

    def values(self) -> ValuesView[T]:
        """Return the values."""
        return _Values(self)


# --- The account of a file in a list of a version, as a manifest has it

COUNTS: Final = ("records", "bytes", "l1", "l2")
SAMPLES: Final = ("samples", "s1", "s2")
FILTERED: Final = "filtered"
REASON: Final = "reason"
# Outcome → its counts; each is a column ``outcome.count``.
LEAVES: Final = {"read": COUNTS, "valid": (*COUNTS, *SAMPLES), "quarantined": COUNTS}
LEDGER_COLUMNS: Final = (
    *(f"{outcome}.{count}" for outcome, counts in LEAVES.items() for count in counts),
    FILTERED,
)
# Sums of hashes, which are hex digits in JSON.
SUMS: Final = frozenset({"l1", "l2", "s1", "s2"})


def account_of(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ledger of a source as JSON, from the columns of its file."""
    account: dict[str, Any] = {
        outcome: {count: _told(count, columns[f"{outcome}.{count}"]) for count in counts}
        for outcome, counts in LEAVES.items()
    }
    account[FILTERED] = {
        each[REASON]: {count: _told(count, each[count]) for count in COUNTS}
        for each in columns[FILTERED]
    }
    return account


def _told(count: str, value: int) -> int | str:
    return f"{value:016x}" if count in SUMS else value
