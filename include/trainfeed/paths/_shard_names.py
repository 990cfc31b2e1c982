"""Names of the shards of a set, ``<prefix>-aaaaa-of-bbbbb``, of its manifest and commit folder.

``aaaaa`` counts from 0, ``bbbbb`` is the largest index and not the number of shards, so a set of
one shard is ``p-00000-of-00000``. Five digits name 100,000 shards; more are refused.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from trainfeed.errors import ConfigError
from trainfeed.whole_numbers import whole

__all__ = [
    "MAX_SHARDS",
    "ShardName",
    "check_prefix",
    "commit_name",
    "manifest_name",
    "num_shards_of",
    "shard_name",
]

MAX_SHARDS: Final = 100_000

# No characters with a meaning in globs or comma lists.
_PREFIX: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
_SHARD: Final = re.compile(r"(?P<prefix>.+)-(?P<index>[0-9]{5})-of-(?P<last>[0-9]{5})")


class ShardName(NamedTuple):
    """The parts of a shard's name.

    Attributes:
        prefix: The part before the numbers.
        number: Index of the shard, from 0.
        num_shards: Number of shards of the set: the second number plus one.
    """

    prefix: str
    number: int
    num_shards: int

    @classmethod
    def parse(cls, name: str) -> ShardName | None:
        """Return the parts of a file name; None when it is not a shard's name."""
        match = _SHARD.fullmatch(name)
        if match is None or int(match["index"]) > int(match["last"]):
            return None
        return cls(match["prefix"], int(match["index"]), int(match["last"]) + 1)


def shard_name(prefix: str, index: int, num_shards: int) -> str:
    """Return the name of shard ``index`` of a set."""
    return f"{prefix}-{index:05d}-of-{num_shards - 1:05d}"


def manifest_name(prefix: str) -> str:
    """Return the file name of a set's manifest; no glob ``<prefix>-*`` matches it."""
    return f"{prefix}.shards.json"


def commit_name(prefix: str) -> str:
    """Return the name of the folder that exists while a set is replaced."""
    return f".{prefix}.commit"


def check_prefix(prefix: str) -> str:
    """Return ``prefix`` if names of shards may begin with it.

    Raises:
        ConfigError: The prefix contains a separator, a blank or a character of globs.
    """
    if not _PREFIX.fullmatch(prefix):
        raise ConfigError(
            "expected a name prefix of up to 200 letters, digits, '_', '-' and '.', no '-' or '.'"
            f" first, got {prefix!r}"
        )
    return prefix


def num_shards_of(value: object) -> int:
    """Return ``value`` if five digits can name so many shards.

    Raises:
        ConfigError: The value is not a whole number from 1 to ``MAX_SHARDS``.
    """
    return whole("num_shards, whose names have five digits,", value, 1, MAX_SHARDS)
