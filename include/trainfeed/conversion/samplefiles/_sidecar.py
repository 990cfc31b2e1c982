"""Encoding and schema of a single record file, in ``<file>.schema.json`` beside it.

A record file does not state the meaning of its records. Shards of a set have a manifest; a file
that is written alone gets this sidecar.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from trainfeed import canonical_json
from trainfeed.conversion._foreign_input import read_small
from trainfeed.datacenters import local_source
from trainfeed.dataset import Version
from trainfeed.dataset.layout import MANIFEST
from trainfeed.dataset.shards import Encoding, manifests_of
from trainfeed.errors import ConfigError, FormatError, NotFoundError
from trainfeed.paths import FileMark, FilePath, mark_of
from trainfeed.samples import Schema
from trainfeed.storage.posix import replace_file

__all__ = ["known_encoding", "load_schema", "sidecar_path", "write_sidecar"]

_FORMAT: Final = "trainfeed-schema/1"


def sidecar_path(path: Path) -> Path:
    """Return the path of the sidecar of a file."""
    return path.with_name(f"{path.name}.schema.json")


def write_sidecar(path: Path, encoding: Encoding, schema: Schema | None) -> None:
    """Write encoding and schema of a file's records to its sidecar."""
    fields = None if schema is None else schema.to_json()
    value = {"format": _FORMAT, "encoding": str(encoding), "schema": fields}
    replace_file(sidecar_path(path), (json.dumps(value, indent=1) + "\n").encode())


def known_encoding(path: Path) -> tuple[Encoding, Schema | None]:
    """Return encoding and schema of a file, from the manifest of its set or version, or a sidecar.

    Raises:
        FormatError: The manifest or the sidecar is damaged.
    """
    (manifest,) = manifests_of([path])
    if manifest is not None:
        return manifest.encoding, manifest.schema
    schema = _schema_of_version(path)
    if schema is not None:
        return Encoding.TYPED, schema
    try:
        data = read_small(sidecar_path(path))
    except NotFoundError:
        return Encoding.BYTES, None
    return _parse(data, sidecar_path(path))


def load_schema(path: FilePath) -> Schema:
    """Read a schema from a file: a list of fields, or an object with such a list as ``schema``.

    Raises:
        FormatError: The file is not JSON.
        ConfigError: The file does not contain a schema.
    """
    value = canonical_json.loads(read_small(Path(local_source(path))), path=str(path))
    if isinstance(value, dict):
        value = value.get("schema")
    if value is None:
        raise ConfigError(f"{path}: expected a list of fields, or an object with a schema")
    return Schema.from_json(value)


def _parse(data: bytes, path: Path) -> tuple[Encoding, Schema | None]:
    value: Any = canonical_json.loads(data, path=str(path))
    try:
        if value["format"] != _FORMAT:
            raise FormatError(f"expected format {_FORMAT}, got {value['format']!r}", path=str(path))
        encoding = Encoding(value["encoding"])
        schema = Schema.from_json(value["schema"]) if encoding is Encoding.TYPED else None
    except (KeyError, TypeError, ValueError, ConfigError) as error:
        raise FormatError(f"expected an account of records: {error}", path=str(path)) from error
    return encoding, schema


def _schema_of_version(path: Path) -> Schema | None:
    """Return the schema of the published version to which a shard belongs; None for other files."""
    mark = mark_of(path.parent / MANIFEST)
    if mark is None:
        return None
    schema, shards = _schema_and_shards(path.parent, mark)
    return schema if path.name in shards else None


@lru_cache(maxsize=4)
def _schema_and_shards(folder: Path, _mark: FileMark) -> tuple[Schema, frozenset[str]]:
    """Return the schema and the shards of a version; kept, for versions opened file by file."""
    version = Version.open(folder)
    splits = version.manifest.splits.values()
    return version.schema, frozenset(shard.name for split in splits for shard in split.shards)
