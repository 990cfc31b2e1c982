"""Names of the shards of a set, ``<prefix>-aaaaa-of-bbbbb``, and of what lies beside them.

``aaaaa`` counts from 0, ``bbbbb`` is the largest index and not the number of shards, so that a set
of one shard is ``p-00000-of-00000``. Five digits name 100,000 shards; more are refused.
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

# No character that a glob or a comma list would read as something else.
_PREFIX: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
_SHARD: Final = re.compile(r"(?P<prefix>.+)-(?P<index>[0-9]{5})-of-(?P<last>[0-9]{5})")


class ShardName(NamedTuple):
    """A shard's name, taken apart.

    Attributes:
        prefix: What stands before the numbers.
        number: Number of the shard, from 0.
        num_shards: How many shards the set has; one more than the second number.
    """

    prefix: str
    number: int
    num_shards: int

    @classmethod
    def parse(cls, name: str) -> ShardName | None:
        """Take a file name apart; None when it is no shard's."""
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
    """Return the name of the folder that is there while a set is replaced."""
    return f".{prefix}.commit"


def check_prefix(prefix: str) -> str:
    """Return a prefix that may start the names of shards.

    Raises:
        ConfigError: It holds a separator, a blank or what a glob would read as a pattern.
    """
    if not _PREFIX.fullmatch(prefix):
        raise ConfigError(
            "expected a name prefix of up to 200 letters, digits, '_', '-' and '.', no '-' or '.'"
            f" first, got {prefix!r}"
        )
    return prefix


def num_shards_of(value: object) -> int:
    """Return a number of shards that has names.

    Raises:
        ConfigError: It is not from 1 to ``MAX_SHARDS``.
    """
    return whole("num_shards, whose names have five digits,", value, 1, MAX_SHARDS)
