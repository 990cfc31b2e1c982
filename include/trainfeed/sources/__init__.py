"""Bounded inputs that can be read again: Kafka topics, recorded topics, and log files.

This room reads bytes. Kinds of sources are declared in ``trainfeed.specification.source_kinds``,
and planned and read in ``trainfeed.pipeline.inputs.source_readers``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.core.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.sources.boundaries import PartitionBoundary, find_boundaries, minutes_misplaced
    from trainfeed.sources.evidence import Evidence, Known, Proof, Records, View, prove
    from trainfeed.sources.kafka import KafkaTopic
    from trainfeed.sources.landing import (
        LANDING_SCHEMA,
        LandingFile,
        LandingWriter,
        landing_folder,
        landing_name,
    )
    from trainfeed.sources.log_folders import FolderEntries
    from trainfeed.sources.log_lines import LINE_TOO_LONG, LineRange, iter_lines
    from trainfeed.sources.log_trees import (
        MISSING,
        CompleteRule,
        FolderTree,
        FoundLogs,
        LogFile,
        find_logs,
        is_bare,
        list_entries,
    )
    from trainfeed.sources.opening import open_topic
    from trainfeed.sources.recorded import RecordedTopic, record_topic
    from trainfeed.sources.topic import OffsetRange, PartitionState, Stamps, Topic, TopicIdentity

__all__ = [
    "LANDING_SCHEMA",
    "LINE_TOO_LONG",
    "MISSING",
    "CompleteRule",
    "Evidence",
    "FolderEntries",
    "FolderTree",
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
    "is_bare",
    "iter_lines",
    "landing_folder",
    "landing_name",
    "list_entries",
    "minutes_misplaced",
    "open_topic",
    "prove",
    "record_topic",
]


__getattr__ = on_demand(__name__)
