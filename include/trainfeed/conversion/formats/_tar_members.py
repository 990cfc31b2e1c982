"""The members of a tar of WebDataset, whose names consist of a key and an extension.

``a/0001.seg.png`` is the part ``seg.png`` of the sample ``a/0001``: the key ends before the first
dot of the last component. The members of a sample follow each other. Members are never unpacked to
disk, so a name cannot do harm here; names that are unsafe as paths are refused all the same,
because other programs make paths from keys.

Python's ``tarfile`` stops without an error at a damaged header and at the end of a truncated file,
and reads an extended header of any length at once. This module checks both.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, cast

import numpy as np
import xxhash

from trainfeed.conversion._foreign_input import open_input
from trainfeed.errors import FormatError, TruncatedError
from trainfeed.paths import FilePath

__all__ = ["MAX_SAMPLE_BYTES", "Keys", "Member", "Tar", "open_tar", "parse_name"]

MAX_SAMPLE_BYTES: Final = 64 << 20
_MAX_PARTS: Final = 1000
_BLOCK_BYTES: Final = 512
# Limit for an extended header, which holds a long name or two.
_MAX_HEADER_BYTES: Final = 1 << 20
# Limit for zeros behind the end: programs fill the last record, which is 10 KiB by default.
_MAX_PADDING_BYTES: Final = 16 << 20
_COMPRESSED: Final = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}


class Member(NamedTuple):
    """A file in a tar.

    Attributes:
        name: Name in the tar.
        key: Key of the sample.
        part: Extension, in lower case.
        header_bytes: Offset of the header.
        start_bytes: Offset of the content.
        num_bytes: Size of the content.
    """

    name: str
    key: str
    part: str
    header_bytes: int
    start_bytes: int
    num_bytes: int


def parse_name(name: str) -> tuple[str, str]:
    """Return key and extension (in lower case) of the name of a member.

    Raises:
        ValueError: The name has no key or extension, or is not a safe path; the message says why.
    """
    folder, slash, last = name.rpartition("/")
    words = folder.split("/") if slash else []
    if name.startswith("/") or ".." in words or "" in words or "\\" in name:
        raise ValueError("expected a path that stays below the folder in which the tar is unpacked")
    if not name.isprintable():
        raise ValueError("expected a name of characters that can be shown")
    stem, _, part = last.partition(".")
    if not stem or not part:
        raise ValueError(
            "expected a name with key and extension, such as 0001.jpg; leave such members out"
        )
    if stem.startswith("__") and stem.endswith("__"):
        raise ValueError(f"expected a sample, {stem!r} is what WebDataset calls metadata")
    return f"{folder}{slash}{stem}", part.lower()


class Keys:
    """The keys so far, as digests of 16 bytes."""

    def __init__(self) -> None:
        self._digests = bytearray()

    def add(self, key: str) -> None:
        """Add a key."""
        self._digests += xxhash.xxh3_128_digest(key.encode())

    def require_different(self) -> None:
        """Check that all keys differ.

        Raises:
            ValueError: Keys were added twice; the message has their number.
        """
        digests = np.frombuffer(self._digests, [("low", "<u8"), ("high", "<u8")])
        doubled = len(digests) - len(np.unique(digests))
        if doubled:
            raise ValueError(
                f"expected the members of a sample side by side and keys that differ, {doubled} of"
                f" {len(digests)} keys come again later; sort the names and pack them again"
            )


class Tar:
    """An open tar.

    Args:
        file: The file.
        path: Name for messages.
    """

    def __init__(self, file: BinaryIO, path: FilePath) -> None:
        self._file = file
        self._path = str(path)
        self._num_bytes = os.fstat(file.fileno()).st_size

    def iter_samples(self) -> Iterator[list[Member]]:
        """Yield the members of each sample; reads only headers.

        Raises:
            TruncatedError: The file ends early.
            FormatError: A header is damaged, or a member is not a file of a sample, or a sample is
                too large.
        """
        keys, found = Keys(), list[Member]()
        for member in self._iter_members():
            if found and member.key != found[0].key:
                yield found
                found = []
            if not found:
                keys.add(member.key)
            self._require_fitting(found, member)
            found.append(member)
        if found:
            yield found
        try:
            keys.require_different()
        except ValueError as error:
            raise FormatError(str(error), path=self._path) from error

    def read(self, member: Member) -> bytes:
        """Return the content of a member.

        Raises:
            TruncatedError: The file ends inside the member.
        """
        self._file.seek(member.start_bytes)
        data = self._file.read(member.num_bytes)
        if len(data) < member.num_bytes:
            raise self._truncated(member.header_bytes)
        return data

    def refused(self, member: Member, why: str) -> FormatError:
        """Return the error for a member that is not accepted."""
        return self._refused(member.name, member.header_bytes, why)

    def _iter_members(self) -> Iterator[Member]:
        self._require_plain()
        bounded = cast("BinaryIO", _Headers(self._file))
        end = -1
        try:
            with tarfile.open(fileobj=bounded, mode="r:", encoding="utf-8", errors="strict") as tar:
                while (info := tar.next()) is not None:
                    # tarfile keeps every member, which would grow with the file.
                    tar.members = []  # type: ignore[attr-defined]
                    end = _require_forward(end, info)
                    if not info.isdir():
                        yield self._member(info)
                end = int(tar.offset)
        except (tarfile.TarError, UnicodeError, OverflowError, ValueError) as error:
            if isinstance(error, tarfile.ReadError) and self._is_at_end():
                raise self._truncated(max(end, 0)) from error
            raise FormatError(
                f"the tar is damaged: {error}", path=self._path, offset_bytes=max(end, 0)
            ) from error
        self._require_end(end)

    def _member(self, info: tarfile.TarInfo) -> Member:
        try:
            _require_readable(info)
            key, part = parse_name(info.name)
        except ValueError as error:
            raise self._refused(info.name, info.offset, str(error)) from error
        if info.offset_data + info.size > self._num_bytes:
            raise self._truncated(info.offset)
        return Member(info.name, key, part, info.offset, info.offset_data, info.size)

    def _require_fitting(self, found: list[Member], member: Member) -> None:
        if any(each.part == member.part for each in found):
            raise self.refused(
                member, f"expected one member {member.part!r} in the sample {member.key!r}, got two"
            )
        num_bytes = member.num_bytes + sum(each.num_bytes for each in found)
        if num_bytes > MAX_SAMPLE_BYTES or len(found) >= _MAX_PARTS:
            raise self.refused(
                member,
                f"expected samples of at most {MAX_SAMPLE_BYTES} bytes in {_MAX_PARTS} members",
            )

    def _require_plain(self) -> None:
        self._file.seek(0)
        head = self._file.read(8)
        self._file.seek(0)
        for start, name in _COMPRESSED.items():
            if head.startswith(start):
                raise FormatError(
                    f"expected a tar without compression, got one with {name}, in which samples"
                    " have no places; decompress it first",
                    path=self._path,
                )

    def _require_end(self, end: int) -> None:
        """Check that the tar ends where ``tarfile`` has stopped: with blocks of zeros only."""
        self._file.seek(end)
        block = self._file.read(_BLOCK_BYTES)
        if len(block) < _BLOCK_BYTES:
            raise self._truncated(end)
        if any(block):
            raise FormatError("a header of the tar is damaged", path=self._path, offset_bytes=end)
        padding_bytes = self._num_bytes - end - _BLOCK_BYTES
        if padding_bytes > _MAX_PADDING_BYTES or any(self._file.read(padding_bytes)):
            raise FormatError(
                "expected nothing behind the end of the tar; one file holds one tar, and programs"
                " read the first one only",
                path=self._path,
                offset_bytes=end,
            )

    def _is_at_end(self) -> bool:
        return self._file.tell() >= self._num_bytes

    def _truncated(self, offset_bytes: int) -> TruncatedError:
        return TruncatedError(
            "the tar ends early: expected the whole of the member that begins here, or the block of"
            " zeros at the end; copy the file again",
            path=self._path,
            offset_bytes=offset_bytes,
        )

    def _refused(self, name: str, offset_bytes: int, why: str) -> FormatError:
        return FormatError(
            f"member {name[:200]!r}: {why}", path=self._path, offset_bytes=offset_bytes
        )


@contextmanager
def open_tar(path: FilePath) -> Iterator[Tar]:
    """Open a tar.

    Raises:
        NotFoundError: There is no file at the path.
        FormatError: The path is not a plain file.
    """
    with open_input(path) as file:
        yield Tar(file, Path(path))


def _require_forward(end: int, info: tarfile.TarInfo) -> int:
    if not end < info.offset <= info.offset_data or info.size < 0:
        raise tarfile.HeaderError("the size in a header would move the reader backwards")
    return info.offset


def _require_readable(info: tarfile.TarInfo) -> None:
    if not info.isreg() or info.issparse():
        raise ValueError("expected a plain file, got a link, a device or a sparse file")
    if info.size > MAX_SAMPLE_BYTES:
        raise ValueError(f"expected at most {MAX_SAMPLE_BYTES} bytes, got {info.size}")


class _Headers:
    """A file that limits single reads of ``tarfile``, which reads only headers."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.tell, self.seek = file.tell, file.seek

    def read(self, num_bytes: int) -> bytes:
        if num_bytes > _MAX_HEADER_BYTES:
            raise tarfile.HeaderError(f"an extended header states {num_bytes} bytes")
        return self._file.read(num_bytes)
