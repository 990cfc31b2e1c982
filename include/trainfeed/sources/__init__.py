"""Bounded inputs that can be read again: Kafka topics, recorded ones, and log files."""

from trainfeed.sources._boundary import PartitionBoundary, find_boundaries
from trainfeed.sources._choice import minutes_misplaced
from trainfeed.sources._evidence import Evidence, Proof, Records, View
from trainfeed.sources._kafka import KafkaTopic
from trainfeed.sources._landing_file import LandingFile
from trainfeed.sources._landing_format import LANDING_SCHEMA, landing_folder, landing_name
from trainfeed.sources._landing_writer import LandingWriter
from trainfeed.sources._logs_folder import (
    CompleteRule,
    LogFile,
    find_logs,
    list_logs,
    present_logs,
)
from trainfeed.sources._logs_lines import LineRange, iter_lines
from trainfeed.sources._open import open_topic
from trainfeed.sources._proof import Known, prove
from trainfeed.sources._record import record_topic
from trainfeed.sources._recorded import RecordedTopic
from trainfeed.sources._topic import OffsetRange, PartitionState, Stamps, Topic, TopicIdentity

__all__ = [
    "LANDING_SCHEMA",
    "CompleteRule",
    "Evidence",
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
    "list_logs",
    "minutes_misplaced",
    "open_topic",
    "present_logs",
    "prove",
    "record_topic",
]
