"""What is known of a shard that is written: the trailer of the file of its positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from pydantic import ValidationError

from trainfeed.dataset.manifest import ShardEntry
from trainfeed.errors import FormatError
from trainfeed.pipeline._ref import JsonObject

__all__ = ["ShardPart", "shard_entry"]


@dataclass(frozen=True)
class ShardPart:
    """A shard in the staging folder.

    Attributes:
        entry: Name, size and digests of its file, as the manifest will have them.
        chunks: Rows of the chunk index, without split, shard and first ordinal.
        statistics: Statistics of its samples, as JSON.
    """

    entry: ShardEntry
    chunks: Sequence[Mapping[str, int]]
    statistics: Mapping[str, object]

    def to_json(self) -> JsonObject:
        """Return what the trailer says."""
        return {
            "shard": self.entry.model_dump(),
            "chunks": list(self.chunks),
            "statistics": self.statistics,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> ShardPart:
        """Read what ``to_json`` gives, from a trailer that may hold further keys.

        Raises:
            FormatError: It is something else.
        """
        try:
            return cls(
                shard_entry(value["shard"]),
                list(cast("Sequence[Mapping[str, int]]", value["chunks"])),
                cast("Mapping[str, object]", value["statistics"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(
                f"expected what is known of a shard in the trailer of its positions: {error};"
                " nothing was published; build the interval again (in Airflow: clear the run from"
                " convert on)"
            ) from error


def shard_entry(value: object) -> ShardEntry:
    """Read what is known of the file of a shard.

    Raises:
        ValueError: ``value`` is something else; names the first key that is wrong.
    """
    try:
        return ShardEntry.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place}: {first['msg']}") from error
