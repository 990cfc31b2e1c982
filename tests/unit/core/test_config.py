from __future__ import annotations

import json
import os
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

import trainfeed
from trainfeed.core.config import (
    Environment,
    KafkaSettings,
    command_environ,
    environment_from_environ,
    training_environ,
)
from trainfeed.errors import ConfigError

VARIABLES = (
    "DATA",
    "ROOT",
    "LANDING",
    "WORK",
    "KAFKA",
    "DATASETS",
    "LOGS",
    "MODELS",
    "CONNECTIONS",
)


@pytest.fixture(autouse=True)
def _empty_environ(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(f"TRAINFEED_{variable}", raising=False)
    monkeypatch.chdir(tmp_path)


def test_without_settings_everything_lies_below_the_working_directory(tmp_path: Path) -> None:
    assert environment_from_environ() == Environment(
        root=str(tmp_path / "data/root"),
        landing=str(tmp_path / "data/landing"),
        work=str(tmp_path / "data/work"),
        kafka={"kafka_default": KafkaSettings(recorded=str(tmp_path / "data/recorded"))},
        datasets=tmp_path / "include/datasets",
        logs={"hdfs_default": str(tmp_path / "data")},
        stores={"hdfs_default": str(tmp_path / "data")},
    )


def test_one_variable_moves_all_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRAINFEED_DATA", "/mnt/feed")
    environment = environment_from_environ()
    assert (environment.root, environment.work) == ("/mnt/feed/root", "/mnt/feed/work")
    assert environment.kafka["kafka_default"].recorded == "/mnt/feed/recorded"
    assert environment.datasets == tmp_path / "include/datasets"


def test_every_place_has_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in {
        "ROOT": "/mnt/cephfs/sets",
        "LANDING": "hdfs://namenode:8020/landing",
        "WORK": "webhdfs://hdfs@namenode:9870/work",
        "KAFKA": "one:9092,two:9092",
        "DATASETS": "/srv/datasets",
        "LOGS": "webhdfs://hdfs@namenode:9870",
        "MODELS": "hdfs://namenode:8020/models",
    }.items():
        monkeypatch.setenv(f"TRAINFEED_{variable}", value)
    assert environment_from_environ() == Environment(
        root="/mnt/cephfs/sets",
        landing="hdfs://namenode:8020/landing",
        work="webhdfs://hdfs@namenode:9870/work",
        kafka={"kafka_default": KafkaSettings(client={"bootstrap.servers": "one:9092,two:9092"})},
        datasets=Path("/srv/datasets"),
        logs={"hdfs_default": "webhdfs://hdfs@namenode:9870"},
        stores={"hdfs_default": "hdfs://namenode:8020/models"},
    )


def test_an_argument_wins_over_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in set(VARIABLES) - {"CONNECTIONS"}:
        monkeypatch.setenv(f"TRAINFEED_{variable}", "/elsewhere")
    environment = environment_from_environ(
        root="/r", landing="/l", work="/w", kafka="localhost:9092", datasets="/d", logs="/logs"
    )
    assert (environment.root, environment.landing, environment.work) == ("/r", "/l", "/w")
    assert environment.kafka["kafka_default"].client == {"bootstrap.servers": "localhost:9092"}
    assert environment.datasets == Path("/d")
    assert environment.logs == {"hdfs_default": "/logs"}


def test_relative_places_become_absolute(tmp_path: Path) -> None:
    environment = environment_from_environ(root="a", landing="b", work="c", kafka="recorded:d")
    assert (environment.root, environment.landing) == (str(tmp_path / "a"), str(tmp_path / "b"))
    assert environment.kafka["kafka_default"].recorded == str(tmp_path / "d")


def test_a_file_uri_is_a_root() -> None:
    assert environment_from_environ(root="file:///mnt/sets").root == "/mnt/sets"


def test_recorded_topics_may_lie_anywhere() -> None:
    settings = environment_from_environ(kafka="recorded:hdfs://namenode:8020/recorded").kafka
    assert settings["kafka_default"].recorded == "hdfs://namenode:8020/recorded"


@pytest.mark.parametrize("kafka", ["[::1]:9092", "kafka-0.kafka:9092", "10.0.0.1:9092,b:1"])
def test_brokers_are_hosts_and_ports(kafka: str) -> None:
    assert environment_from_environ(kafka=kafka).kafka["kafka_default"].recorded is None


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("ROOT", "", "expected TRAINFEED_ROOT to name a place, got ''; set or unset it"),
        ("WORK", "a\0b", "expected TRAINFEED_WORK to name a place, got 'a\\x00b'; set or unset it"),
        (
            "ROOT",
            "hdfs://namenode:8020/sets",
            (
                "expected TRAINFEED_ROOT to be a folder of a mounted file system, got"
                " 'hdfs://namenode:8020/sets'; publication needs its atomic rename"
            ),
        ),
        (
            "LANDING",
            "ftp://host/landing",
            (
                "expected TRAINFEED_LANDING to be a path or a URI of file, hdfs, pfs, s3, webhdfs,"
                " got 'ftp://host/landing'"
            ),
        ),
        (
            "KAFKA",
            "localhost",
            (
                "expected TRAINFEED_KAFKA to be host:port[,host:port…] or recorded:<folder>, got"
                " 'localhost'"
            ),
        ),
        (
            "KAFKA",
            "a:1, b:2",
            (
                "expected TRAINFEED_KAFKA to be host:port[,host:port…] or recorded:<folder>, got"
                " 'a:1, b:2'"
            ),
        ),
        (
            "KAFKA",
            "recorded:",
            "expected TRAINFEED_KAFKA to name a folder after 'recorded:', got none",
        ),
    ],
)
def test_a_wrong_setting_names_its_variable(variable: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        environment_from_environ(**{variable.lower(): value})
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ROOT", "hdfs://me:s3cret@namenode:8020/sets"),
        ("LOGS", "s3://key:s3cret@bucket/logs"),
        ("LANDING", "ftp://me:s3c@ret@host/landing"),
        ("KAFKA", "broker:9092,me:s3cret@broker:9092"),
    ],
)
def test_a_password_in_a_wrong_setting_is_not_shown(variable: str, value: str) -> None:
    with pytest.raises(ConfigError) as error:
        environment_from_environ(**{variable.lower(): value})
    assert "s3c" not in str(error.value)
    assert "…@" in str(error.value)


def test_settings_never_change() -> None:
    with pytest.raises(FrozenInstanceError):
        environment_from_environ().root = "/"  # type: ignore[misc]


def test_client_settings_are_never_printed() -> None:
    settings = KafkaSettings(client={"sasl.password": "canary"})
    environment = Environment("/r", "/l", "/w", {"kafka_default": settings}, Path("/d"))
    assert "canary" not in repr(environment)


def test_a_training_job_inherits_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", "canary")
    monkeypatch.setenv("PATH", "/bin")
    environ = training_environ("/srv/package", {"EPOCHS": "3"})
    assert "canary" not in environ.values()
    assert (environ["PATH"], environ["PYTHONPATH"].split(":")[0]) == ("/bin", "/srv/package")


def test_a_command_finds_the_same_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    first, *others = command_environ()["PYTHONPATH"].split(os.pathsep)
    assert Path(first) == Path(trainfeed.__file__).parents[1]
    assert others == ["/elsewhere"]


def test_a_file_of_connections_has_clusters_with_credentials_and_places_of_logs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clicks = {"bootstrap.servers": "one:9093", "sasl.password": "secret"}
    place = "webhdfs://reader@namenode:9870/logs"
    (tmp_path / "clusters.json").write_text(json.dumps({"kafka_clicks": clicks, "other": place}))
    monkeypatch.setenv("TRAINFEED_CONNECTIONS", str(tmp_path / "clusters.json"))
    found = environment_from_environ()
    assert found.kafka["kafka_clicks"] == KafkaSettings(client=clicks)
    assert found.logs["other"] == place
    assert set(found.kafka) == {"kafka_default", "kafka_clicks"}
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": {"bootstrap.servers": "secret:1", "enable.ssl": true}}',
        '{"a": {"sasl.password": "secret"}}',
        '{"a": "secret@ftp://x"',
        '["secret"]',
        '{"a": "ftp://secret@x"}',
    ],
)
def test_a_wrong_file_of_connections_is_named_without_its_values(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str
) -> None:
    (tmp_path / "clusters.json").write_text(text)
    monkeypatch.setenv("TRAINFEED_CONNECTIONS", str(tmp_path / "clusters.json"))
    with pytest.raises(ConfigError, match=r"clusters\.json|connection 'a'") as caught:
        environment_from_environ()
    assert "secret" not in str(caught.value)


def test_a_file_of_clusters_has_their_settings_by_connection(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert environment_from_environ().clusters == {}
    (tmp_path / "clusters.yaml").write_text("kubernetes_default: {root: {path: /pfs}}\n")
    monkeypatch.setenv("TRAINFEED_CLUSTERS", str(tmp_path / "clusters.yaml"))
    found = environment_from_environ().clusters
    assert found == {"kubernetes_default": {"root": {"path": "/pfs"}}}


@pytest.mark.parametrize("text", ["[a]", "a: b", "a: {b", "1: {}", "a: {}\na: {}", "\x80"])
def test_a_wrong_file_of_clusters_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str
) -> None:
    (tmp_path / "clusters.yaml").write_bytes(text.encode("latin-1"))
    monkeypatch.setenv("TRAINFEED_CLUSTERS", str(tmp_path / "clusters.yaml"))
    with pytest.raises(ConfigError, match=r"clusters\.yaml"):
        environment_from_environ()
    monkeypatch.setenv("TRAINFEED_CLUSTERS", str(tmp_path / "none.yaml"))
    with pytest.raises(ConfigError, match=r"none\.yaml: No such file"):
        environment_from_environ()


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o604])
def test_a_file_of_trackers_with_a_secret_is_closed_to_other_accounts(
    mode: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "trackers.yaml"
    monkeypatch.setenv("TRAINFEED_TRACKERS", str(file))
    file.write_text("open: {url: 'http://a'}\n")
    file.chmod(mode)
    assert environment_from_environ().trackers == {"open": {"url": "http://a"}}
    file.write_text("closed: {url: 'https://a', token: s3cret}\n")
    with pytest.raises(ConfigError, match=rf"chmod 600 {file}") as caught:
        environment_from_environ()
    assert "s3cret" not in str(caught.value)
    for closed in (0o600, 0o640, 0o400):
        file.chmod(closed)
        assert environment_from_environ().trackers["closed"]["token"] == "s3cret"


def test_a_file_of_trackers_that_is_no_yaml_is_named_without_its_values(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "trackers.yaml"
    file.write_text("a:\n  url: https://a\n  token: 's3cret\n  x: }\n")
    monkeypatch.setenv("TRAINFEED_TRACKERS", str(file))
    with pytest.raises(ConfigError, match=r"expected YAML in .*trackers\.yaml, line ") as caught:
        environment_from_environ()
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_missing_file_of_connections_is_a_clear_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRAINFEED_CONNECTIONS", str(tmp_path / "none.json"))
    with pytest.raises(ConfigError, match=r"none\.json: No such file"):
        environment_from_environ()


@pytest.mark.parametrize(
    ("kind", "one", "several", "secret"),
    [
        ("registries", "registry", "registries", "token"),
        ("catalogs", "catalog", "catalogs", "credential"),
    ],
)
def test_a_server_is_named_by_a_variable_and_others_by_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, one: str, several: str, secret: str
) -> None:
    assert getattr(environment_from_environ(), kind) == {}
    file = tmp_path / f"{several}.yaml"
    file.touch(0o600)
    file.write_text(f"orders: {{url: 'https://orders', {secret}: s3cret}}\n")
    monkeypatch.setenv(f"TRAINFEED_{several.upper()}", str(file))
    monkeypatch.setenv(f"TRAINFEED_{one.upper()}", "http://127.0.0.1:8081")
    found = environment_from_environ()
    assert getattr(found, kind) == {
        f"{one}_default": {"url": "http://127.0.0.1:8081"},
        "orders": {"url": "https://orders", secret: "s3cret"},
    }
    assert "s3cret" not in repr(found)
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="closed to other accounts"):
        environment_from_environ()
