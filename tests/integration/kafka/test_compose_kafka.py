"""The settings that docker-compose.yaml gives its broker are settings of this broker."""

from __future__ import annotations

import os

from confluent_kafka.admin import AdminClient, ConfigResource
from ruamel.yaml import YAML

from services._home import REPOSITORY


def test_every_variable_of_the_composition_names_a_setting() -> None:
    compose = YAML(typ="safe").load(REPOSITORY / "docker-compose.yaml")
    # The image maps KAFKA_LOG_DIRS to log.dirs.
    names = [
        name.removeprefix("KAFKA_").replace("_", ".").lower()
        for name in compose["services"]["kafka"]["environment"]
    ]
    admin = AdminClient({"bootstrap.servers": os.environ["TEST_KAFKA_BOOTSTRAP_SERVERS"]})
    broker = ConfigResource(ConfigResource.Type.BROKER, "1")
    known = admin.describe_configs([broker])[broker].result(timeout=20)
    assert len(names) > 10
    assert [name for name in names if name not in known] == []
