"""Bounded inputs that can be read again: Kafka topics, recorded ones, and log files."""

from trainfeed.sources._boundary import PartitionBoundary, find_boundary
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
from trainfeed.sources._record import record_topic
from trainfeed.sources._recorded import RecordedTopic
from trainfeed.sources._topic import Topic, TopicIdentity

__all__ = [
    "LANDING_SCHEMA",
    "CompleteRule",
    "KafkaTopic",
    "LandingFile",
    "LandingWriter",
    "LineRange",
    "LogFile",
    "PartitionBoundary",
    "RecordedTopic",
    "Topic",
    "TopicIdentity",
    "find_boundary",
    "find_logs",
    "iter_lines",
    "landing_folder",
    "landing_name",
    "list_logs",
    "open_topic",
    "present_logs",
    "record_topic",
]
