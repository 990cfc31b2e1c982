"""Bounded inputs that can be read again: Kafka topics, recorded topics, and log files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.sources._boundary import PartitionBoundary, find_boundaries
    from trainfeed.sources._choice import minutes_misplaced
    from trainfeed.sources._evidence import Evidence, Proof, Records, View
    from trainfeed.sources._open_topic import open_topic
    from trainfeed.sources._proof import Known, prove
    from trainfeed.sources._recorded import RecordedTopic
    from trainfeed.sources._recording import record_topic
    from trainfeed.sources._topic import OffsetRange, PartitionState, Stamps, Topic, TopicIdentity
    from trainfeed.sources.kafka import KafkaTopic
    from trainfeed.sources.landing import (
        LANDING_SCHEMA,
        LandingFile,
        LandingWriter,
        landing_folder,
        landing_name,
    )
    from trainfeed.sources.logs import (
        CompleteRule,
        FolderEntries,
        FoundLogs,
        LineRange,
        LogFile,
        find_logs,
        iter_lines,
        list_entries,
    )

__all__ = [
    "LANDING_SCHEMA",
    "CompleteRule",
    "Evidence",
    "FolderEntries",
    "FoundLogs",
    "KafkaTopic",
    "Known",
    "LandingFile",
    "LandingWriter",
    "LineRange",
    "LogFile",
    "OffsetRange",
    "PartitionBoundary",
    "PartitionState",
    "Proof",
    "RecordedTopic",
    "Records",
    "Stamps",
    "Topic",
    "TopicIdentity",
    "View",
    "find_boundaries",
    "find_logs",
    "iter_lines",
    "landing_folder",
    "landing_name",
    "list_entries",
    "minutes_misplaced",
    "open_topic",
    "prove",
    "record_topic",
]


__getattr__ = on_demand(__name__, __file__)
