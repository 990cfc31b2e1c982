"""An open topic, and which of its offsets an interval covers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trainfeed.dataset.identity import kafka_source
from trainfeed.errors import IngestError
from trainfeed.pipeline.boundaries._boundary_file import Boundary
from trainfeed.pipeline.plans import PlannedInput
from trainfeed.sources import Topic

__all__ = ["TopicWindow"]


@dataclass(frozen=True)
class TopicWindow:
    """An open topic, and where it stood at both ends of the interval."""

    topic: Topic
    connection: str
    start: Boundary
    end: Boundary

    def inputs(self) -> Iterator[tuple[str, PlannedInput]]:
        """Yield source string and planned range of every partition."""
        identity = self.topic.identity
        self._require_order()
        for partition in sorted(self.end.partitions):
            first, last = self.start.offset(partition), self.end.offset(partition)
            yield (
                kafka_source(identity.topic, partition),
                PlannedInput(
                    connection=self.connection,
                    topic=identity.topic,
                    topic_uuid=identity.uuid,
                    cluster=identity.cluster,
                    partition=partition,
                    start=first,
                    end=last,
                ),
            )

    def _require_order(self) -> None:
        for partition in sorted({*self.start.partitions, *self.end.partitions}):
            first, last = self.start.offset(partition), self.end.offset(partition)
            if first > last:
                raise IngestError(
                    f"boundaries of topic {self.topic.identity.topic!r} partition {partition} are"
                    f" in the wrong order: {first} at {self.start.at}, {last} at {self.end.at};"
                    " nothing was read or published; 'trainfeed boundaries check' says which"
                    " boundary file is wrong"
                )
