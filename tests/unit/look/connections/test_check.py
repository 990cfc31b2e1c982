"""Every connection that data sets name gets one line: what it is, and what is wrong with it."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from tests.unit.pipeline.conftest import project
from tests.unit.pipeline.inputs.avro_clicks import of_avro
from trainfeed.core.config import KafkaSettings
from trainfeed.errors import StorageError
from trainfeed.files.stores import Location
from trainfeed.look import connections
from trainfeed.look.connections import Connection, check_connections, hadoop_settings

__all__ = ["project"]

LOGS = """\
name: hops
schedule: "@daily"
start: 2026-01-01
source: {logs: {path: "/hops/dt={start:%Y-%m-%d}", connection: LOGS}}
preprocess: {function: "preprocess:clicks"}
schema: {label: {dtype: int64}}
split: {train: 1}
"""
SECRET = "canary-7ac3"


@pytest.fixture(autouse=True)
def no_hadoop(monkeypatch):
    for name in ("HADOOP_CONF_DIR", "HADOOP_HOME", "KRB5CCNAME", "KRB5_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("KRB5_CLIENT_KTNAME", raising=False)


def with_logs(project, connection, place=None):
    """The environment with a second data set, whose logs are at a connection."""
    folder = project.env.datasets / "hops"
    folder.mkdir()
    (folder / "dataset.yaml").write_text(LOGS.replace("LOGS", connection))
    (folder / "preprocess.py").touch()
    return replace(project.env, logs={} if place is None else {connection: place})


def answer_of(env, name, **options):
    (found,) = (a for a in check_connections(env, **options) if a.connection.name == name)
    return found


def test_what_is_there_is_ok_and_says_what_it_has(project, tmp_path):
    (tmp_path / "logs" / "hops").mkdir(parents=True)
    env = with_logs(project, "hdfs_default", str(tmp_path / "logs"))
    found = check_connections(env)
    assert all(each.is_ok for each in found)
    assert [(each.connection.name, each.connection.used_by) for each in found] == [
        ("kafka_default", ("clicks",)),
        ("hdfs_default", ("hops",)),
        ("TRAINFEED_ROOT", ()),
        ("TRAINFEED_LANDING", ()),
        ("TRAINFEED_WORK", ()),
    ]
    assert found[0].message == "cluster recorded, topics clicks (3 partitions)"
    assert str(tmp_path / "logs" / "hops") in found[1].message
    assert "may write" in found[2].message
    assert "the first build makes the folder" in found[3].message


def test_what_is_not_there_is_named_with_what_to_do(project, tmp_path):
    env = with_logs(project, "hdfs_default", str(tmp_path / "logs"))
    env = replace(env, root=str(tmp_path / "none"), kafka={})
    found = {each.connection.name: each for each in check_connections(env)}
    assert not found["kafka_default"].is_ok
    assert "connection 'kafka_default' is not defined" in found["kafka_default"].message
    assert not found["hdfs_default"].is_ok
    assert f"has no file://{tmp_path}/logs/hops; make the folder" in found["hdfs_default"].message
    assert "trainfeed init" in found["TRAINFEED_ROOT"].message


def test_a_topic_that_is_missing_is_named(project):
    project.edit("topic: clicks", "topic: klicks")
    found = answer_of(project.env, "kafka_default")
    assert (found.is_ok, "expected recorded topic 'klicks'" in found.message) == (False, True)


def test_a_password_in_the_url_of_a_server_is_refused_and_not_shown(project):
    of_avro(project)
    project.edit(
        "seed: 7", 'seed: 7\ntrain: {entry: "preprocess:clicks", tracking: {mlflow: tracker}}'
    )
    wrong = {"url": f"https://me:{SECRET}@h/x?token={SECRET}"}
    env = replace(project.env, registries={"registry_default": wrong}, trackers={"tracker": wrong})
    for name in ("registry_default", "tracker"):
        found = answer_of(env, name)
        assert (found.is_ok, found.connection.place) == (False, "https://me:***@h/x")
        assert SECRET not in str(found.to_json())


def test_a_connection_of_several_data_sets_is_asked_once(project, tmp_path):
    env = with_logs(project, "hdfs_default", str(tmp_path))
    other = env.datasets / "skips"
    other.mkdir()
    text = LOGS.replace("name: hops", "name: skips").replace("LOGS", "hdfs_default")
    (other / "dataset.yaml").write_text(text)
    (other / "preprocess.py").touch()
    assert answer_of(env, "hdfs_default").connection.used_by == ("hops", "skips")


def test_a_wrong_specification_is_a_line_and_hides_no_other(project):
    folder = project.env.datasets / "broken"
    folder.mkdir()
    (folder / "dataset.yaml").write_text("nme: broken\n")
    found = check_connections(project.env)
    assert not found[0].is_ok
    assert "broken/dataset.yaml" in found[0].message
    assert found[1].connection.name == "kafka_default"
    assert found[1].is_ok


def test_kerberos_for_kafka_is_refused_with_what_can_be_had(project):
    client = {
        "bootstrap.servers": "broker:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "GSSAPI",
        "sasl.password": SECRET,
    }
    env = replace(project.env, kafka={"kafka_default": KafkaSettings(client=client)})
    found = answer_of(env, "kafka_default")
    assert not found.is_ok
    assert "GSSAPI (Kerberos) is not in the wheels of confluent-kafka" in found.message
    assert "SCRAM-SHA-512" in found.message
    assert SECRET not in str(found.to_json())
    assert found.to_json()["place"] == "broker:9092"


def test_what_does_not_answer_has_failed_and_keeps_no_other_waiting(project, monkeypatch):
    hangs = threading.Event()

    def kind(_env, _specs):
        yield Connection("slow", "registry", "http://slow", ("clicks",), lambda: str(hangs.wait()))

    monkeypatch.setattr(connections, "KINDS", (*connections.KINDS, kind))
    started = time.monotonic()
    found = check_connections(project.env, deadline_s=1.0)
    hangs.set()
    assert time.monotonic() - started < 5
    assert [each.connection.name for each in found if not each.is_ok] == ["slow"]
    assert "no answer within 1 s" in found[-1].message


def test_a_mistake_of_ours_is_no_answer_of_a_connection(project, monkeypatch):
    def kind(_env, _specs):
        yield Connection("odd", "registry", "", (), lambda: str(1 // 0))

    monkeypatch.setattr(connections, "KINDS", (kind,))
    with pytest.raises(ZeroDivisionError):
        check_connections(project.env)


# --- HDFS: what its settings say before anybody is asked


def write_settings(folder, monkeypatch, **files):
    """Write the configuration of Hadoop; return the folder."""
    for name, properties in files.items():
        rows = "".join(
            f"<property>\n <name>{key}</name><value> {value} </value></property>"
            for key, value in properties.items()
        )
        text = f"<?xml version='1.0'?><configuration><!-- <property> -->{rows}</configuration>"
        (folder / f"{name}-site.xml").write_text(text)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(folder))


SERVICE = {
    "dfs.nameservices": "other,prod",
    "dfs.ha.namenodes.prod": "nn1, nn2",
    "dfs.namenode.rpc-address.prod.nn1": "a:8020",
    "dfs.namenode.rpc-address.prod.nn2": "b:8020",
}
KERBEROS = {"hadoop.security.authentication": "kerberos"}
PRINCIPAL = {"dfs.namenode.kerberos.principal": "nn/_HOST@EXAMPLE.COM"}


@pytest.fixture
def asked(monkeypatch):
    """The URIs that were asked; nothing is reached."""
    uris = []

    def exists(location):
        uris.append(location.uri)
        return True

    monkeypatch.setattr(Location, "exists", exists)
    return uris


def test_the_properties_of_both_files_are_read(tmp_path, monkeypatch):
    assert hadoop_settings() == {}
    write_settings(tmp_path, monkeypatch, core=KERBEROS, hdfs=SERVICE)
    assert hadoop_settings() == {**KERBEROS, **SERVICE}


@pytest.mark.parametrize(
    ("lacks", "message"),
    [
        (None, ""),
        ("dfs.nameservices", "without dfs.nameservices with prod"),
        ("dfs.ha.namenodes.prod", "without dfs.ha.namenodes.prod"),
        ("dfs.namenode.rpc-address.prod.nn2", "without dfs.namenode.rpc-address.prod.nn2"),
    ],
)
def test_a_name_service_needs_its_name_nodes(project, tmp_path, monkeypatch, asked, lacks, message):
    properties = {key: value for key, value in SERVICE.items() if key != lacks}
    write_settings(tmp_path, monkeypatch, hdfs=properties)
    found = answer_of(with_logs(project, "hdfs_prod", "hdfs://prod/data"), "hdfs_prod")
    assert found.is_ok is (lacks is None)
    assert message in found.message
    assert ("hdfs://prod/data/hops" in asked) is found.is_ok


def test_a_name_service_without_the_configuration_of_hadoop_is_refused(project, asked):
    found = answer_of(with_logs(project, "hdfs_prod", "hdfs://prod/data"), "hdfs_prod")
    assert (found.is_ok, "HADOOP_CONF_DIR is not set" in found.message) == (False, True)


def test_a_name_node_on_standby_is_told_as_one(project, monkeypatch):
    def exists(location):
        if location.fs.scheme == "webhdfs":
            raise StorageError("READ is not supported in state standby (StandbyException)")
        return True

    monkeypatch.setattr(Location, "exists", exists)
    found = answer_of(with_logs(project, "hdfs_b", "webhdfs://b:9870/data"), "hdfs_b")
    assert not found.is_ok
    assert "on standby: name the active one, or, with hdfs://, the name service" in found.message


@pytest.mark.parametrize(
    ("place", "hdfs", "variables", "message"),
    [
        ("webhdfs://a:9870/data", PRINCIPAL, {}, "not built for webhdfs://"),
        ("hdfs://a:8020/data", {}, {}, "expected dfs.namenode.kerberos.principal"),
        (
            "hdfs://a:8020/data",
            {"dfs.namenode.kerberos.principal": "hdfs"},
            {},
            "service/host@REALM, got 'hdfs'",
        ),
        ("hdfs://a:8020/data", PRINCIPAL, {"KRB5_CONFIG": "none"}, "KRB5_CONFIG names"),
        ("hdfs://a:8020/data", PRINCIPAL, {"KRB5_CLIENT_KTNAME": "none"}, "KTNAME names"),
        ("hdfs://a:8020/data", PRINCIPAL, {"KRB5CCNAME": "FILE:none"}, "run kinit"),
        ("hdfs://a:8020/data", PRINCIPAL, {"KRB5CCNAME": "FILE:ticket"}, ""),
        ("hdfs://a:8020/data", PRINCIPAL, {"KRB5CCNAME": "KCM:1000"}, ""),
        (
            "hdfs://a:8020/data",
            PRINCIPAL,
            {"KRB5CCNAME": "FILE:none", "KRB5_CLIENT_KTNAME": "ticket"},
            "",
        ),
    ],
)
def test_kerberos_is_checked_for_its_form(  # noqa: PLR0917 - the case in its parts
    project, tmp_path, monkeypatch, asked, place, hdfs, variables, message
):
    write_settings(tmp_path, monkeypatch, core=KERBEROS, hdfs=hdfs)
    (tmp_path / "ticket").touch()
    monkeypatch.setattr(connections.ctypes, "CDLL", str)
    for name, value in variables.items():
        text = value.replace("FILE:", f"FILE:{tmp_path}/")
        monkeypatch.setenv(name, text if ":" in value else str(tmp_path / value))
    found = answer_of(with_logs(project, "hdfs_a", place), "hdfs_a")
    assert found.is_ok is not message
    assert message in found.message
    assert bool(message) is (f"{place}/hops" not in asked)


def test_kerberos_without_its_library_is_refused(project, tmp_path, monkeypatch, asked):
    write_settings(tmp_path, monkeypatch, core=KERBEROS, hdfs=PRINCIPAL)
    monkeypatch.setattr(connections, "_LIBRARY", "libnone.so.0")
    found = answer_of(with_logs(project, "hdfs_a", "hdfs://a:8020/data"), "hdfs_a")
    assert (found.is_ok, "libnone.so.0 is not installed" in found.message) == (False, True)
