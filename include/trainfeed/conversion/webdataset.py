"""Tars of WebDataset ↔ typed samples: one field per extension of a key's members."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, cast

import numpy as np
import xxhash

from trainfeed.conversion.foreign_input import open_input
from trainfeed.conversion.json_lines import NOT_FINITE, parse_json, value_from_json, value_to_json
from trainfeed.conversion.npy import read_array
from trainfeed.errors import ConfigError, FormatError, SampleShapeError, TruncatedError
from trainfeed.files import FilePath
from trainfeed.samples import Field, Schema

# --- The members of a tar of WebDataset, whose names consist of a key and an extension

MAX_SAMPLE_BYTES: Final = 64 << 20
_MAX_PARTS: Final = 1000
_BLOCK_BYTES: Final = 512
# Limit for an extended header, which holds a long name or two.
_MAX_HEADER_BYTES: Final = 1 << 20
# Limit for zeros after the end: programs fill the last record, which is 10 KiB by default.
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
        raise ValueError(f"expected a sample, {stem!r} is metadata of WebDataset")
    return f"{folder}{slash}{stem}", part.lower()


class Keys:
    """The keys so far, as digests of 16 bytes."""

    def __init__(self) -> None:
        self._digests = bytearray()

    def add(self, key: str) -> None:
        """Add a key."""
        # 16 bytes per key in one buffer: a set of the keys would take far more memory.
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
            # Members of a sample are neighbours; another key begins the next sample.
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
        # A damaged size in a header must not make tarfile allocate memory.
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
                # The first block that is no header: zeros, if the tar is whole.
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
                    f"expected a tar without compression, got one with {name}, in which no"
                    " sample can be found by its place; decompress it first",
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
    # Without this check a damaged size could lead tarfile into an endless loop.
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


# --- Tars of WebDataset ↔ typed samples: one field per extension

_KEY: Final = "key"
# tar pads files to records of 20 blocks.
_RECORD_BYTES: Final = 20 * _BLOCK_BYTES
_MAX_FIELDS: Final = 1000
_TEXT_PARTS: Final = frozenset({"txt", "json"})
_ARRAY: Final = ".npy"


def webdataset_schema(path: FilePath) -> Schema:
    """Return the fields of the samples of a tar, from the names of all its members.

    Raises:
        ConfigError: An extension cannot be the name of a field, or there is no sample.
        FormatError: The tar is damaged, or a member is not a file of a sample.
    """
    counts: dict[str, int] = {}
    num_samples = 0
    with open_tar(path) as tar:
        for members in tar.iter_samples():
            num_samples += 1
            for member in members:
                counts[member.part] = counts.get(member.part, 0) + 1
            if len(counts) > _MAX_FIELDS:
                raise ConfigError(
                    f"{path}: expected at most {_MAX_FIELDS} different extensions, got more"
                )
    if not num_samples:
        raise ConfigError(f"{path}: no sample shows what the fields are; give a schema")
    if _KEY in counts:
        raise ConfigError(f"{path}: expected no extension {_KEY!r}, which is the field of the key")
    parts = [
        Field(part, _dtype_of(part), (), count < num_samples) for part, count in counts.items()
    ]
    return Schema((Field(_KEY, "str"), *parts))


def count_webdataset(path: FilePath) -> int:
    """Return the number of samples, from headers alone; for errors see ``read_webdataset``."""
    with open_tar(path) as tar:
        return sum(1 for _ in tar.iter_samples())


def read_webdataset(path: FilePath, schema: Schema | None = None) -> Iterator[dict[str, Any]]:
    """Yield the samples of a tar, in the form that ``TypedCodec.encode`` takes.

    One sample is in memory at a time.

    Args:
        path: The tar, without compression.
        schema: Schema of the samples; None takes the one of ``webdataset_schema``. Keys are left
            out if the schema has no field ``key``.

    Raises:
        FormatError: The tar is damaged, or a member does not match the schema; the error has
            the member and its offset.
    """
    found = webdataset_schema(path) if schema is None else schema
    fields = {_part_of(field).lower(): field for field in found if field.name != _KEY}
    names = found.names
    with open_tar(path) as tar:
        for members in tar.iter_samples():
            sample = {_KEY: members[0].key} if _KEY in names else {}
            for member in members:
                data, field = tar.read(member), fields.get(member.part)
                if field is None:
                    raise tar.refused(member, f"expected one of the extensions {list(fields)}")
                try:
                    sample[field.name] = _value(field, data)
                except (ValueError, RecursionError, SampleShapeError, FormatError) as error:
                    raise tar.refused(member, str(error)) from error
            yield sample


def write_webdataset(file: BinaryIO, samples: Iterable[Mapping[str, Any]], schema: Schema) -> int:
    """Write samples in the form of ``TypedCodec.decode``; return their number.

    Members have no time and no owner, so equal samples give equal files. The key is the field
    ``key``, or without such a field the number of the sample in nine digits.

    Raises:
        ConfigError: The name of a field cannot be an extension, or two fields have the same one.
        SampleShapeError: A key is invalid or repeated, or a sample has no member.
    """
    fields = _writable(schema)
    keys, count, num_bytes = Keys(), 0, 0
    for count, sample in enumerate(samples, 1):
        key = str(sample[_KEY]) if _KEY in schema.names else f"{count - 1:09d}"
        present = [field for field in fields if sample[field.name] is not None]
        if not present:
            raise SampleShapeError(f"sample {count - 1}: all of its fields are absent")
        keys.add(key)
        for field in present:
            name = f"{key}.{_part_of(field)}"
            _require_name(name, key, count - 1)
            num_bytes += _write_member(file, name, _content(field, sample[field.name]))
    try:
        keys.require_different()
    except ValueError as error:
        raise SampleShapeError(str(error)) from error
    # Two blocks of zeros end a tar; more zeros fill the last record.
    end = 2 * _BLOCK_BYTES
    file.write(bytes(end + -(num_bytes + end) % _RECORD_BYTES))
    return count


def _dtype_of(part: str) -> str:
    last = part.rpartition(".")[2]
    return "int64" if last == "cls" else "str" if last in _TEXT_PARTS else "bytes"


def _part_of(field: Field) -> str:
    return f"{field.name}{_ARRAY}" if field.shape else field.name


def _value(field: Field, data: bytes) -> Any:
    if field.dtype == "bytes":
        return data
    if field.shape:
        return read_array(io.BytesIO(data), len(data))
    text = data.decode()
    if field.dtype == "str":
        if field.name.rpartition(".")[2] == "json":
            json.loads(text)
        return text
    text = text.strip()
    return value_from_json(field, text if text in NOT_FINITE else parse_json(text.encode()))


def _content(field: Field, value: Any) -> bytes:
    if field.dtype == "bytes":
        return bytes(value)
    if field.shape:
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, np.ascontiguousarray(value), allow_pickle=False)
        return buffer.getvalue()
    found = value_to_json(field, value)
    return (found if isinstance(found, str) else json.dumps(found)).encode()


def _writable(schema: Schema) -> list[Field]:
    key = [field for field in schema if field.name == _KEY]
    if key and (key[0].dtype != "str" or key[0].optional):
        raise ConfigError(f"expected {_KEY!r} as a str that every sample has, got {key[0]}")
    fields = [field for field in schema if field.name != _KEY]
    parts = {_part_of(field).lower() for field in fields}
    if not fields or len(parts) < len(fields) or any("/" in part for part in parts):
        raise ConfigError(
            "expected fields beside the key whose names differ, also in lower case, and have no"
            f" '/', as extensions of members, got {[field.name for field in fields]}; rename them"
        )
    return fields


def _require_name(name: str, key: str, number: int) -> None:
    try:
        found = parse_name(name)[0]
    except ValueError as error:
        raise SampleShapeError(f"sample {number}: {error}, got {name[:200]!r}") from error
    if found != key:
        raise SampleShapeError(
            f"sample {number}: expected a key without a dot in its last word, got {key[:200]!r}"
        )


def _write_member(file: BinaryIO, name: str, data: bytes) -> int:
    info = tarfile.TarInfo(name)
    # No time and no owner: equal samples give equal bytes.
    info.size, info.mode = len(data), 0o444
    header = info.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")
    padding = bytes(-len(data) % _BLOCK_BYTES)
    file.writelines((header, data, padding))
    return len(header) + len(data) + len(padding)
