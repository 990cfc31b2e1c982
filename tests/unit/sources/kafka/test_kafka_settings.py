"""Which client settings are let through, and that no secret leaves them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from trainfeed.errors import ConfigError
from trainfeed.sources import KafkaTopic

SERVERS = {"bootstrap.servers": "broker-1:9092,broker-2:9092"}
SASL = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "ingest",
    "sasl.password": "canary-5d1f",
}


@pytest.mark.parametrize(
    "settings",
    [
        SERVERS,
        SERVERS | SASL,
        SERVERS | {"security.protocol": "SSL", "ssl.ca.pem": "-----BEGIN CERTIFICATE-----"},
        SERVERS | {"client.rack": "eu-1a", "client.id": "x", "broker.address.family": "v4"},
    ],
)
def test_what_real_clusters_need_is_allowed(settings):
    KafkaTopic(settings, "flights")


@pytest.mark.parametrize(
    "key",
    [
        "sasl.jaas.config",
        "plugin.library.paths",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.keystore.location",
        "ssl.engine.location",
        "ssl.providers",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.keytab",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.assertion.private.key.file",
        "enable.ssl.certificate.verification",
        "isolation.level",
        "auto.offset.reset",
        "group.id",
        "debug",
        "error_cb",
        "Bootstrap.Servers",
    ],
)
def test_what_opens_files_runs_programs_or_changes_the_reading_is_refused(key):
    """SE-14."""
    with pytest.raises(ConfigError, match=f"{key}' is not allowed; allowed are bootstrap") as info:
        KafkaTopic(SERVERS | {key: "canary-5d1f"}, "flights")
    assert "canary" not in str(info.value)


@pytest.mark.parametrize(
    "change",
    [
        {"sasl.mechanism": "GSSAPI"},
        {"sasl.mechanism": "OAUTHBEARER"},
        {"sasl.mechanisms": "GSSAPI"},
        {"sasl.mechanisms": "PLAIN"},
    ],
)
def test_mechanisms_are_those_with_a_user_and_a_password(change):
    with pytest.raises(ConfigError, match=r"PLAIN, SCRAM-SHA-256, SCRAM-SHA-512") as info:
        KafkaTopic(SERVERS | SASL | change, "flights")
    assert "canary" not in str(info.value)


def test_sasl_without_a_mechanism_does_not_fall_back_to_kerberos():
    with pytest.raises(ConfigError, match=r"where security.protocol is SASL"):
        KafkaTopic(SERVERS | {"security.protocol": "sasl_plaintext"}, "flights")


@pytest.mark.parametrize("value", ["", " ", None, 9092])
def test_settings_are_text(value):
    with pytest.raises(ConfigError, match=r"'bootstrap.servers' to be text"):
        KafkaTopic({"bootstrap.servers": value}, "flights")


def test_brokers_are_needed():
    with pytest.raises(ConfigError, match=r"'bootstrap.servers' is missing"):
        KafkaTopic({}, "flights")


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "a b", "a" * 250, "é"])
def test_a_topic_has_a_name_that_kafka_allows(topic):
    with pytest.raises(ConfigError, match="expected a topic name"):
        KafkaTopic(SERVERS, topic)


def test_a_value_that_the_client_refuses_is_a_setting_to_change():
    topic = KafkaTopic(SERVERS | {"security.protocol": "carrier pigeon"}, "flights")
    with pytest.raises(ConfigError, match=r"'flights' at brokers broker-1:9092.*carrier pigeon"):
        topic.partitions()


def test_a_damaged_key_does_not_show_in_the_error():
    pem = {"ssl.key.pem": "canary-5d1f", "ssl.key.password": "canary-77aa"}
    topic = KafkaTopic(SERVERS | {"security.protocol": "SSL"} | pem, "flights")
    with pytest.raises(ConfigError) as info:
        topic.partitions()
    assert "canary" not in str(info.value)


def test_a_topic_is_made_without_the_client_library():
    """Clients are made after any fork, by the first question."""
    program = (
        "import sys; from trainfeed.sources import KafkaTopic\n"
        "KafkaTopic({'bootstrap.servers': 'b:9092'}, 'flights').close()\n"
        "assert not [name for name in sys.modules if name.startswith('confluent_kafka')]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": "include"})
