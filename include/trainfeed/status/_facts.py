"""The facts about a published version from which the state of its interval follows.

A manifest names much more, such as every shard; the index of a data set keeps only these facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, TypeAlias

import xxhash

from trainfeed.dataset.interval_notes import told_passed_over
from trainfeed.dataset.manifest import Manifest
from trainfeed.intervals import parse_time

__all__ = ["RecordedGap", "TopicRange", "VersionFacts"]

_SHOWN: Final = 3

# Topic, a digest of its id and cluster, its partitions, and for each the first offset and the one
# behind the last. Lists, as JSON has them: neighbours are compared as a whole.
TopicRange: TypeAlias = tuple[str, str, list[int], list[int], list[int]]


# Source, first offset and the one behind the last, and why the loss was accepted.
RecordedGap: TypeAlias = tuple[str, int, int, str]


# Named tuples: frozen dataclasses take five times as long to make, and there are thousands.
class VersionFacts(NamedTuple):
    """The facts about one version.

    Attributes:
        start: Start of the interval, seconds since 1970.
        end: End of the interval, likewise.
        samples: Number of samples.
        empty: Why nothing was read, for an empty version; else None.
        gaps: The recorded gaps, ranges of offsets that were lost: source, start, end, and the
            reason for accepting it.
        late: Number of records stamped before the interval.
        late_from: The earliest stamp of such a record, milliseconds since 1970.
        topics: The offsets that were read, for sources with offsets.
        passed_over: The entries of the folder of logs that were not read, in words, without
            markers; empty if there were none.
    """

    start: int
    end: int
    samples: int
    empty: str | None
    gaps: tuple[RecordedGap, ...]
    late: int
    late_from: int
    topics: list[TopicRange]
    passed_over: str = ""

    @classmethod
    def of(cls, manifest: Manifest) -> VersionFacts:
        """Return the facts of a manifest."""
        start = parse_time(manifest.interval.start)
        lateness = timedelta(milliseconds=manifest.late.get("max_lateness_ms", 0))
        return cls(
            start=int(start.timestamp()),
            end=int(parse_time(manifest.interval.end).timestamp()),
            samples=manifest.num_samples(),
            empty=_why_empty(manifest) if manifest.empty else None,
            gaps=tuple((g["source"], g["start"], g["end"], g["why"]) for g in manifest.gaps),
            late=manifest.late.get("late", 0),
            late_from=_milliseconds(start - lateness),
            topics=_topics(manifest.inputs),
            passed_over=told_passed_over(manifest.passed_over, marker=False),
        )

    @property
    def lost(self) -> tuple[str, ...]:
        """The recorded gaps, one line each."""
        return tuple(
            f"{source} offsets [{start}, {end}) are lost: {why}"
            for source, start, end, why in self.gaps
        )

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of an index row; facts that do not apply are left out."""
        rest: dict[str, Any] = {
            "empty": self.empty,
            "gaps": [list(gap) for gap in self.gaps],
            "late": [self.late, self.late_from] if self.late else [],
            "topics": [list(topic) for topic in self.topics],
            "passed_over": self.passed_over,
        }
        kept = {name: value for name, value in rest.items() if value not in (None, [], "")}
        return {"start": self.start, "end": self.end, "samples": self.samples, **kept}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> VersionFacts:
        """Read the JSON of ``to_json``.

        Raises:
            KeyError, TypeError, ValueError: ``row`` is no such JSON.
        """
        start, end, samples = row["start"], row["end"], row["samples"]
        late, late_from = row.get("late") or (0, 0)
        empty = row.get("empty")
        gaps = tuple((source, at, to, why) for source, at, to, why in row.get("gaps", ()))
        topics = [
            (topic, identity, numbers, starts, ends)
            for topic, identity, numbers, starts, ends in row.get("topics", ())
        ]
        if not (type(start) is type(end) is type(samples) is type(late) is type(late_from) is int):
            raise TypeError("expected whole numbers")
        texts = [each for source, _, _, why in gaps for each in (source, why)]
        if not (empty is None or isinstance(empty, str)) or "".join(texts) is None:
            raise TypeError("expected texts")
        if not all(type(at) is type(to) is int for _, at, to, _ in gaps):
            raise TypeError("expected whole numbers")
        passed_over = row.get("passed_over", "")
        if not isinstance(passed_over, str):
            raise TypeError("expected texts")
        return cls(start, end, samples, empty, gaps, late, late_from, topics, passed_over)


def _why_empty(manifest: Manifest) -> str:
    reasons = [f"{source}: {why}" for source, why in manifest.empty_because.items()]
    more = f" … and {len(reasons) - _SHOWN} more" if len(reasons) > _SHOWN else ""
    return "; ".join(reasons[:_SHOWN]) + more or "no record became a sample"


def _topics(inputs: Mapping[str, Mapping[str, Any]]) -> list[TopicRange]:
    found: dict[tuple[str, str], TopicRange] = {}
    for source, planned in inputs.items():
        if "partition" in planned:
            name, _, _ = source.rpartition("/")
            topic = f"{planned['topic_uuid']} {planned['cluster']}"
            identity = xxhash.xxh3_64_hexdigest(topic.encode())
            *_, numbers, starts, ends = found.setdefault(
                (name, identity), (name, identity, [], [], [])
            )
            numbers.append(planned["partition"])
            starts.append(planned["start"])
            ends.append(planned["end"])
    return [found[key] for key in sorted(found)]


def _milliseconds(time: datetime) -> int:
    return round(time.timestamp() * 1000)
