"""Tars of WebDataset ↔ typed samples: one field per extension.

Without a schema ``key`` is a str, ``.cls`` is an int64, ``.txt`` and ``.json`` are str (the text
of JSON is checked and kept unchanged), and all other extensions are bytes; an extension that some
samples lack becomes an optional field. With a schema, the member whose extension is the name of a
field holds its value: bytes unchanged, str in UTF-8, a single number or bool as JSON, and an array
as ``<field>.npy``.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO, Final

import numpy as np

from trainfeed.conversion.formats._json_lines import parse_json
from trainfeed.conversion.formats._json_samples import NOT_FINITE, value_from_json, value_to_json
from trainfeed.conversion.formats._npy_header import read_array
from trainfeed.conversion.formats._tar_members import Keys, open_tar, parse_name
from trainfeed.errors import ConfigError, FormatError, SampleShapeError
from trainfeed.paths import FilePath
from trainfeed.samples import Field, Schema

__all__ = ["count_webdataset", "read_webdataset", "webdataset_schema", "write_webdataset"]

_KEY: Final = "key"
_BLOCK_BYTES: Final = 512
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
        FormatError: The tar is damaged, or a member does not match the schema; has the member and
            its offset.
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
    info.size, info.mode = len(data), 0o444
    header = info.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")
    padding = bytes(-len(data) % _BLOCK_BYTES)
    file.writelines((header, data, padding))
    return len(header) + len(data) + len(padding)
