"""Bounded inputs that can be read again: Kafka topics, and topics recorded as landing files."""

from trainfeed.sources._boundary import PartitionBoundary, find_boundary
from trainfeed.sources._kafka import KafkaTopic
from trainfeed.sources._landing_file import LandingFile
from trainfeed.sources._landing_format import LANDING_SCHEMA, landing_folder, landing_name
from trainfeed.sources._landing_writer import LandingWriter
from trainfeed.sources._open import open_topic
from trainfeed.sources._record import record_topic
from trainfeed.sources._recorded import RecordedTopic
from trainfeed.sources._topic import Topic, TopicIdentity

__all__ = [
    "LANDING_SCHEMA",
    "KafkaTopic",
    "LandingFile",
    "LandingWriter",
    "PartitionBoundary",
    "RecordedTopic",
    "Topic",
    "TopicIdentity",
    "find_boundary",
    "landing_folder",
    "landing_name",
    "open_topic",
    "record_topic",
]
