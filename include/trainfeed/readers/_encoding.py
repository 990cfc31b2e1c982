"""What the records of converted shards are, as the manifest beside the shards says."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from trainfeed.dataset import canonical
from trainfeed.dataset.canonical import require_intact
from trainfeed.errors import ConfigError, FormatError
from trainfeed.paths import read_plain
from trainfeed.samples import Schema

__all__ = ["Decoder", "decoder_of"]

# What makes a sample of a record.
Decoder: TypeAlias = Callable[[bytes], Any]

_SHARD: Final = re.compile(r"(?P<prefix>.+)-\d{5}-of-\d{5}")


def decoder_of(paths: Sequence[str | Path]) -> Schema | Decoder | None:
    """Return the schema or the decoder of the files' records; None where nothing says it.

    Raises:
        ConfigError: The files are of several kinds.
        FormatError: A manifest is damaged.
    """
    manifests = {_manifest(Path(path)) for path in paths}
    kinds = {None if path is None else _kind(path) for path in manifests}
    if len(kinds) != 1:
        raise ConfigError(
            f"expected files whose records are of one kind, got {len(kinds)} kinds; read them one"
            " by one, or say how to decode them"
        )
    (kind,) = kinds
    if kind is None or kind[0] == "bytes":
        return None
    if kind[0] == "value":
        from trainfeed.samples import ValueCodec

        return ValueCodec().decode
    return Schema.from_json(canonical.loads(kind[1], path="schema"))


def _manifest(path: Path) -> Path | None:
    match = _SHARD.fullmatch(path.name)
    manifest = path.with_name(f"{match['prefix']}.shards.json") if match else None
    return manifest if manifest is not None and manifest.exists() else None


def _kind(path: Path) -> tuple[str, bytes]:
    data = read_plain(path, follow=False, max_bytes=canonical.MAX_BYTES)
    value = canonical.loads(data, path=str(path))
    require_intact(data, path=str(path))
    if not isinstance(value, dict) or value.get("encoding") not in {"bytes", "value", "typed"}:
        raise FormatError("expected a manifest of shards with a known encoding", path=str(path))
    return value["encoding"], canonical.dumps(value.get("schema"))
