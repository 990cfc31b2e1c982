"""Topics of a Kafka cluster."""

from trainfeed.sources.kafka._kafka_topic import KafkaTopic

__all__ = [
    "KafkaTopic",
]
