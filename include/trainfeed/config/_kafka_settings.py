"""The settings of Kafka clusters, and of recorded topics in the place of one."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from trainfeed.config._setting_values import place, setting, shown
from trainfeed.errors import ConfigError

__all__ = ["KafkaSettings", "kafka_default"]

_RECORDED: Final = "recorded:"
_BROKER: Final = re.compile(r"[A-Za-z0-9._-]+:[0-9]{1,5}|\[[0-9A-Fa-f:]+\]:[0-9]{1,5}")


@dataclass(frozen=True)
class KafkaSettings:
    """The settings of one Kafka cluster, or of recorded topics in its place.

    Attributes:
        client: librdkafka settings; they may hold secrets and are never printed.
        recorded: Folder or URI whose subfolders are recorded topics; precedes ``client``.
        remedy: The setting to change if a topic is not there, for messages.
    """

    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    recorded: str | None = None
    remedy: str = field(default="change 'recorded' of the connection", compare=False)


def kafka_default(given: str | None, recorded: Path) -> KafkaSettings:
    """Return the settings of the connection that is always there.

    Args:
        given: Value in place of ``TRAINFEED_KAFKA``; None for the variable.
        recorded: Folder of recorded topics where neither says another place.

    Raises:
        ConfigError: The setting is not valid; the message names the variable.
    """
    found = _kafka(setting("TRAINFEED_KAFKA", given, f"{_RECORDED}{recorded}"))
    if given is not None or "TRAINFEED_KAFKA" in os.environ:
        return replace(found, remedy="change TRAINFEED_KAFKA")
    forgotten = "set TRAINFEED_KAFKA, which is not set: host:9092 for a cluster"
    return replace(found, remedy=f"{forgotten}, recorded:FOLDER for recorded topics")


def _kafka(value: str) -> KafkaSettings:
    if value.startswith(_RECORDED):
        recorded = value.removeprefix(_RECORDED)
        if not recorded:
            raise ConfigError(
                "expected TRAINFEED_KAFKA to name a folder after 'recorded:', got none"
            )
        return KafkaSettings(recorded=place("TRAINFEED_KAFKA", recorded))
    brokers = value.split(",")
    if not all(_BROKER.fullmatch(broker) for broker in brokers):
        raise ConfigError(
            "expected TRAINFEED_KAFKA to be host:port[,host:port…] or recorded:<folder>,"
            f" got {shown(value)!r}"
        )
    return KafkaSettings(client={"bootstrap.servers": value})
