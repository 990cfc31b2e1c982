"""Connections become places and settings; errors say how to correct an incomplete one."""

from __future__ import annotations

import os

import pytest

from operators.connections import conversion_roots, datasets_folder, environment_from_connections
from trainfeed.errors import AccessDeniedError, ConfigError
from trainfeed.versions import require_writable_root

pytestmark = pytest.mark.usefixtures("connections")


def read(*kafka):
    return environment_from_connections(kafka)


def test_webhdfs_places_carry_user_host_and_port():
    env = read()
    assert env.landing == "webhdfs://trainfeed@namenode:9870/landing"
    assert env.work == "webhdfs://trainfeed@namenode:9870/work"
    assert env.root == "/pfs/dataset"


@pytest.mark.parametrize(("kind", "port"), [("webhdfs", 9870), ("hdfs", 8020)])
def test_ports_have_the_defaults_of_their_protocol(set_connection, kind, port):
    set_connection("hdfs_default", conn_type=kind, port=None, login=None)
    assert read().landing == f"{kind}://namenode:{port}/landing"


def test_a_login_that_the_native_protocol_would_ignore_is_refused(set_connection):
    set_connection("hdfs_default", conn_type="hdfs", port=None, login="trainfeed")
    with pytest.raises(ConfigError, match=r"'hdfs_default'.*no login.*HADOOP_USER_NAME"):
        read()


def test_files_stand_in_for_hdfs(set_connection):
    set_connection("hdfs_default", conn_type="file", host=None)
    assert read().work == "file:///work"


@pytest.fixture
def areas(tmp_path, monkeypatch):
    """A data centre whose areas are folders."""
    for folder in (tmp_path / ".trainfeed", tmp_path / "home/airflow", tmp_path / "public"):
        folder.mkdir(parents=True)
    config = tmp_path / ".trainfeed/config"
    config.write_text(
        f"datacenters: [{{name: dc1, username: airflow, mount: {tmp_path}, local: true}}]"
    )
    config.chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_places_of_connections_may_be_shared_paths(areas, set_connection):
    set_connection("cephfs_default", extra={"path": "pfs://home/root"})
    places = {"landing": "pfs://home/landing", "work": "/work", "logs": "pfs://public/logs"}
    set_connection("hdfs_default", conn_type="file", host=None, extra=places)
    env = environment_from_connections((), ["hdfs_default"])
    assert (env.root, env.is_root_public) == (f"{areas}/home/airflow/root", False)
    assert (env.landing, env.work) == ("pfs://home/landing", "file:///work")
    assert env.logs == {"hdfs_default": "pfs://public/logs"}


def test_a_public_root_of_a_connection_is_never_written(areas, set_connection):
    set_connection("cephfs_default", extra={"path": "pfs://public/root"})
    env = read()
    assert env.root == f"{areas}/public/root"
    with pytest.raises(AccessDeniedError, match=r"the extra 'path' of connection 'cephfs_default'"):
        require_writable_root(env)


def test_a_shared_path_on_hdfs_is_refused(set_connection):
    set_connection("hdfs_default", extra={"landing": "pfs://home/landing", "work": "/work"})
    with pytest.raises(ConfigError, match=r"'hdfs_default' to be of type file"):
        read()


def test_folders_of_conversions_may_be_shared_paths(areas, set_connection):
    extra = {"inputs": ["pfs://public"], "outputs": ["pfs://home/out"], "work": "pfs://home/work"}
    set_connection("convert_default", conn_type="generic", extra=extra)
    roots = conversion_roots()
    assert roots.inputs == (areas / "public",)
    assert roots.output_folder("pfs://home/out/set") == areas / "home/airflow/out/set"
    (areas / "public/a").touch()
    assert roots.input_files("pfs://public/*") == [areas / "public/a"]
    with pytest.raises(ConfigError, match="expected a path below"):
        roots.output_folder("pfs://home/other")
    set_connection("convert_default", extra={**extra, "outputs": ["pfs://public/out"]})
    with pytest.raises(AccessDeniedError, match="for reading"):
        conversion_roots()


def test_kafka_settings_are_those_of_the_extra_as_text(set_connection):
    extra = {"bootstrap.servers": "b:9092", "enable.ssl": True, "fetch.wait.max.ms": 5}
    set_connection("kafka_clicks", extra=extra)
    assert read("kafka_clicks").kafka["kafka_clicks"].client == {
        "bootstrap.servers": "b:9092",
        "enable.ssl": "true",
        "fetch.wait.max.ms": "5",
    }


def test_recorded_topics_stand_in_for_kafka(set_connection):
    set_connection("kafka_clicks", extra={"recorded": "/data/recorded"})
    settings = read("kafka_clicks").kafka["kafka_clicks"]
    assert settings.recorded == "/data/recorded"
    assert settings.client == {}


def test_only_the_kafka_connections_of_the_data_set_are_read():
    assert read().kafka == {}


@pytest.mark.parametrize("name", ["hdfs_default", "cephfs_default", "kafka_clicks"])
def test_a_missing_connection_is_named_with_an_example(monkeypatch, name):
    monkeypatch.delenv(f"AIRFLOW_CONN_{name.upper()}")
    with pytest.raises(ConfigError, match=f"'{name}' is not defined.*connections add {name}"):
        read("kafka_clicks")


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("hdfs_default", {"extra": {"landing": "/landing"}}),
        ("hdfs_default", {"extra": {"landing": "relative", "work": "/work"}}),
        ("hdfs_default", {"conn_type": "ftp"}),
        ("hdfs_default", {"host": None}),
        ("cephfs_default", {"extra": {}}),
        ("kafka_clicks", {"extra": {}}),
    ],
)
def test_an_incomplete_connection_is_named_with_an_example(set_connection, name, changes):
    set_connection(name, **changes)
    with pytest.raises(ConfigError, match=f"'{name}'.*change it: airflow connections add"):
        read("kafka_clicks")


def test_no_secret_is_in_a_message_or_a_representation(set_connection):
    set_connection("kafka_clicks", extra={"sasl.password": "hunter2"})
    with pytest.raises(ConfigError) as caught:
        read("kafka_clicks")
    assert "hunter2" not in str(caught.value)
    set_connection("kafka_clicks", extra={"bootstrap.servers": "b:1", "sasl.password": "hunter2"})
    assert "hunter2" not in repr(read("kafka_clicks"))


def test_data_sets_are_beside_the_operators_wherever_a_task_starts(monkeypatch, tmp_path):
    monkeypatch.delenv("TRAINFEED_DATASETS", raising=False)
    monkeypatch.chdir(tmp_path)
    folder = datasets_folder()
    assert folder.parts[-2:] == ("include", "datasets")
    assert (folder.parent.parent / "operators" / "connections.py").is_file()


def test_the_variable_moves_the_data_sets(monkeypatch, tmp_path):
    monkeypatch.setenv("TRAINFEED_DATASETS", str(tmp_path))
    assert datasets_folder() == tmp_path


def test_paths_of_models_begin_at_the_root_or_at_the_extra_and_no_password_is_in_the_place(
    set_connection,
):
    set_connection("hdfs_default", password="canary-9")
    env = environment_from_connections((), stores=["hdfs_default"])
    assert env.stores == {"hdfs_default": "webhdfs://trainfeed@namenode:9870/"}
    assert "canary-9" not in repr(env)
    set_connection("hdfs_default", extra={"landing": "/l", "work": "/w", "models": "/data"})
    env = environment_from_connections((), stores=["hdfs_default"])
    assert env.stores == {"hdfs_default": "webhdfs://trainfeed@namenode:9870/data"}
    assert read().stores == {}


BUCKET = {"landing": "s3://lake/landing", "work": "/work"}
KEYS = {"AWS_ACCESS_KEY_ID": "worker", "AWS_SECRET_ACCESS_KEY": "w", "AWS_SESSION_TOKEN": "t"}


@pytest.fixture
def keys_of_worker(monkeypatch):
    """The worker has keys of its own, for another store."""
    for name in ("AWS_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.setenv(name, "of the worker")
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("keys_of_worker")
def test_a_place_in_a_bucket_is_reached_with_the_keys_of_the_connection_alone(set_connection):
    set_connection("hdfs_default", extra=BUCKET)
    extra = {"endpoint_url": "https://store.example"}
    set_connection("s3_default", conn_type="aws", login="A", password="B", extra=extra)
    assert read().landing == "s3://lake/landing"
    found = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    assert found == {
        "AWS_ACCESS_KEY_ID": "A",
        "AWS_SECRET_ACCESS_KEY": "B",
        "AWS_ENDPOINT_URL": "https://store.example",
    }


@pytest.mark.usefixtures("keys_of_worker")
def test_without_that_connection_or_a_bucket_the_keys_of_the_worker_stay(set_connection):
    set_connection("hdfs_default", extra=BUCKET)
    read()
    assert KEYS.items() <= os.environ.items()
    set_connection("hdfs_default", extra={"landing": "/landing", "work": "/work"})
    set_connection("s3_default", conn_type="aws", login="A", password="B")
    read()
    assert KEYS.items() <= os.environ.items()


@pytest.mark.usefixtures("keys_of_worker")
def test_conversions_get_the_keys_of_a_root_in_a_bucket_and_no_others(set_connection, monkeypatch):
    extra = {"inputs": ["/pfs/state"], "outputs": ["/pfs/out"], "work": "/pfs/work"}
    set_connection("convert_default", conn_type="generic", extra=extra)
    set_connection("s3_default", conn_type="aws", login="A", password="B")
    conversion_roots()
    monkeypatch.delenv("AIRFLOW_CONN_CEPHFS_DEFAULT")
    conversion_roots()
    assert KEYS.items() <= os.environ.items()
    set_connection("cephfs_default", extra={"path": "s3://lake/sets", "state": "/pfs/state"})
    conversion_roots()
    assert os.environ["AWS_ACCESS_KEY_ID"] == "A"


@pytest.mark.parametrize(
    "changes", [{"login": None}, {"password": None}, {"extra": {"role_arn": "arn:secret"}}]
)
def test_an_incomplete_connection_of_object_stores_is_refused_without_its_values(
    set_connection, changes
):
    set_connection("hdfs_default", extra=BUCKET)
    whole = {"conn_type": "aws", "login": "key-id", "password": "secret", **changes}
    set_connection("s3_default", **whole)
    with pytest.raises(ConfigError, match=r"'s3_default'.*airflow connections add") as error:
        read()
    assert "key-id" not in str(error.value)
    assert "secret" not in str(error.value).replace("secret key", "")


@pytest.mark.usefixtures("keys_of_worker")
def test_a_root_in_a_bucket_has_a_folder_that_follows_it(set_connection):
    set_connection("s3_default", conn_type="aws", login="A", password="B")
    set_connection("cephfs_default", extra={"path": "s3://lake/sets", "state": "/pfs/state"})
    env = read()
    assert (env.root, env.bucket, env.is_root_private) == ("/pfs/state", "s3://lake/sets", False)
    set_connection("cephfs_default", extra={"path": "s3://lake/sets"})
    with pytest.raises(ConfigError, match=r"'cephfs_default' to have the extra 'state'"):
        read()
