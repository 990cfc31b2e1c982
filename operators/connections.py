"""Airflow connections → ``trainfeed.core.config``, here alone; and the folder of the data sets."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from trainfeed.core.config import (
    Environment,
    KafkaSettings,
    environment_from_environ,
    is_public,
    name_object_store,
    root_place,
)
from trainfeed.core.datacenters import is_shared
from trainfeed.errors import ConfigError

if TYPE_CHECKING:
    from trainfeed.conversion import Roots


# --- The folder of the data sets, for DAG files and operators

_HERE: Final = Path("include/datasets")


def datasets_folder() -> Path:
    """Return the folder with one folder per data set.

    The variable ``TRAINFEED_DATASETS`` names it. By default it is the folder beside this package,
    not in the working directory, because Airflow chooses the working directory of tasks.

    Raises:
        ConfigError: The variable is empty.
    """
    configured = environment_from_environ().datasets
    if configured == _HERE.absolute():
        return Path(__file__).resolve().parent.parent / _HERE
    return configured


# --- Airflow connections → ``trainfeed.core.config``; the only place that reads them

_HDFS: Final = "hdfs_default"
_CEPHFS: Final = "cephfs_default"
_CONVERT: Final = "convert_default"
_S3: Final = "s3_default"
_ROOT_SETTING: Final = f"the extra 'path' of connection {_CEPHFS!r}"
_SCHEMES: Final = ("file://", "hdfs://", "pfs://", "s3://", "webhdfs://")
_IN_BUCKET: Final = "s3://"
# Extra of the connection of object stores → variable of clients; the first two as Amazon's provider
# of Airflow names them.
_S3_EXTRAS: Final = {
    "endpoint_url": "AWS_ENDPOINT_URL",
    "region_name": "AWS_REGION",
    "aws_session_token": "AWS_SESSION_TOKEN",
    "ca_file": "AWS_CA_BUNDLE",
}
_PORTS: Final = {"webhdfs": 9870, "hdfs": 8020}

_HDFS_EXAMPLE: Final = (
    f"airflow connections add {_HDFS} --conn-type webhdfs --conn-host namenode --conn-port 9870"
    ' --conn-login trainfeed --conn-extra \'{"landing": "/landing", "work": "/work"}\''
)
_CEPHFS_EXAMPLE: Final = (
    f"airflow connections add {_CEPHFS} --conn-type generic"
    ' --conn-extra \'{"path": "/pfs/dc/public/dataset"}\''
)
_BUCKET_EXAMPLE: Final = (
    f"airflow connections add {_CEPHFS} --conn-type generic"
    ' --conn-extra \'{"path": "s3://company-data/sets", "state": "/pfs/dc/state"}\''
)
_CONVERT_EXAMPLE: Final = (
    f"airflow connections add {_CONVERT} --conn-type generic --conn-extra"
    ' \'{"inputs": ["/pfs/dc/home"], "outputs": ["/pfs/dc/home"], "work": "/pfs/dc/work"}\''
)
_S3_EXAMPLE: Final = (
    f"airflow connections add {_S3} --conn-type aws --conn-login ACCESS_KEY --conn-password …"
    ' --conn-extra \'{"endpoint_url": "https://store.example", "region_name": "eu-central-1"}\''
)
_KAFKA_EXAMPLE: Final = (
    "airflow connections add {name} --conn-type kafka"
    ' --conn-extra \'{{"bootstrap.servers": "broker:9092"}}\''
)
_CLUSTER_EXAMPLE: Final = (
    "airflow connections add {name} --conn-type generic --conn-extra"
    ' \'{{"namespace": "training", "root": {{"path": "/pfs/dataset", "claim": "cephfs"}}}}\''
)
_TRACKER_EXAMPLE: Final = (
    "airflow connections add {name} --conn-type generic --conn-extra"
    ' \'{{"url": "https://mlflow.example", "token": "…"}}\''
)
_REGISTRY_EXAMPLE: Final = (
    "airflow connections add {name} --conn-type generic --conn-extra"
    ' \'{{"url": "https://registry.example"}}\''
)
_CATALOG_EXAMPLE: Final = (
    "airflow connections add {name} --conn-type generic --conn-extra"
    ' \'{{"url": "https://catalog.example", "warehouse": "lake"}}\''
)


def environment_from_connections(  # noqa: PLR0913, PLR0917 - a kind of connection each
    kafka: Iterable[str],
    logs: Iterable[str] = (),
    clusters: Iterable[str] = (),
    stores: Iterable[str] = (),
    trackers: Iterable[str] = (),
    registries: Iterable[str] = (),
    catalogs: Iterable[str] = (),
) -> Environment:
    """Return the folders and connections of a task.

    Args:
        kafka: Ids of the Kafka connections that the data set names.
        logs: Ids of the connections of log files that the data set names.
        clusters: Ids of the connections of clusters that its training names.
        stores: Ids of the connections from and to which its models are transferred.
        trackers: Ids of the connections of tracking servers that its training names.
        registries: Ids of the connections of schema registries that the data set names.
        catalogs: Ids of the connections of catalogues of tables that the data set names.

    Raises:
        ConfigError: A connection is missing or incomplete; the message has its name and an example,
            but no values, which may be secrets.
    """
    hdfs = _connection(_HDFS, _HDFS_EXAMPLE)
    cephfs = _connection(_CEPHFS, _CEPHFS_EXAMPLE)
    root = _extra(cephfs, "path", _CEPHFS_EXAMPLE)
    landing, work = (_uri(hdfs, _extra(hdfs, key, _HDFS_EXAMPLE)) for key in ("landing", "work"))
    starts = {
        key: {name: _start(_connection(name, _HDFS_EXAMPLE), key) for name in names}
        for key, names in (("logs", logs), ("models", stores))
    }
    places = (root, landing, work, *starts["logs"].values(), *starts["models"].values())
    if any(place.startswith(_IN_BUCKET) for place in places):
        _name_object_store()
    is_in_bucket = root.startswith(_IN_BUCKET)
    state = _extra(cephfs, "state", _BUCKET_EXAMPLE) if is_in_bucket else None
    found = root_place(_ROOT_SETTING, root, state)
    return Environment(
        root=found.folder,
        bucket=found.bucket,
        landing=landing,
        work=work,
        kafka={name: _kafka(name) for name in kafka},
        datasets=datasets_folder(),
        logs=starts["logs"],
        stores=starts["models"],
        clusters={
            name: _connection(name, _CLUSTER_EXAMPLE.format(name=name)).extra_dejson
            for name in clusters
        },
        trackers={name: _server(name, _TRACKER_EXAMPLE) for name in trackers},
        registries={name: _server(name, _REGISTRY_EXAMPLE) for name in registries},
        catalogs={name: _server(name, _CATALOG_EXAMPLE) for name in catalogs},
        root_setting=_ROOT_SETTING,
        is_root_public=is_public(state or root),
    )


def conversion_roots() -> Roots:
    """Return the folders that conversions may read and write.

    Raises:
        ConfigError: The connection is missing or incomplete; the message has an example.
    """
    from trainfeed.conversion import Roots

    extra = _connection(_CONVERT, _CONVERT_EXAMPLE).extra_dejson
    found: list[Any] = [extra.get(key) for key in ("inputs", "outputs", "work")]
    inputs, outputs, work = found
    for paths in (inputs, outputs, [work]):
        if not isinstance(paths, list) or not paths or not all(map(_is_absolute, paths)):
            raise ConfigError(
                f"expected connection {_CONVERT!r} to have the extras 'inputs' and 'outputs',"
                f" lists of absolute paths, and 'work', one such; change it: {_CONVERT_EXAMPLE}"
            )
    _name_store_of_root()
    # As text: a Path would lose a slash of pfs://.
    return Roots(tuple(inputs), tuple(outputs), work)


def _name_store_of_root() -> None:
    """Give this process the keys of a publication root in a bucket, whose versions it may read."""
    try:
        path = Connection.get(_CEPHFS).extra_dejson.get("path")
    except AirflowNotFoundException:
        return
    if isinstance(path, str) and path.startswith(_IN_BUCKET):
        _name_object_store()


def _server(name: str, example: str) -> dict[str, Any]:
    """Return the settings of a server: the extras, and name and password of basic auth."""
    connection = _connection(name, example.format(name=name))
    pair = {"username": connection.login, "password": connection.password}
    return {**connection.extra_dejson, **(pair if connection.login else {})}


def _name_object_store() -> None:
    """Give this process the keys of ``s3_default``; without it, those of the worker stay."""
    try:
        connection = Connection.get(_S3)
    except AirflowNotFoundException:
        return
    extra = connection.extra_dejson
    if not connection.login or not connection.password or not extra.keys() <= _S3_EXTRAS.keys():
        raise ConfigError(
            f"expected connection {_S3!r} to have the access key as login, the secret key as"
            f" password, and extras of {', '.join(_S3_EXTRAS)}; change it: {_S3_EXAMPLE}"
        )
    keys = {
        "AWS_ACCESS_KEY_ID": connection.login,
        "AWS_SECRET_ACCESS_KEY": connection.password,
    }
    name_object_store(keys | {_S3_EXTRAS[key]: str(value) for key, value in extra.items()})


def _is_absolute(path: object) -> bool:
    return isinstance(path, str) and path.startswith(("/", "pfs://")) and path != "/"


def _connection(name: str, example: str) -> Connection:
    try:
        connection: Connection = Connection.get(name)
    except AirflowNotFoundException as error:
        raise ConfigError(f"connection {name!r} is not defined; add it: {example}") from error
    return connection


def _extra(connection: Connection, key: str, example: str) -> str:
    value = connection.extra_dejson.get(key)
    if not isinstance(value, str) or not value.startswith(("/", *_SCHEMES)):
        raise ConfigError(
            f"expected connection {connection.conn_id!r} to have the extra {key!r}, an absolute"
            f" path or a URI of {', '.join(_SCHEMES)}, got none; change it: {example}"
        )
    return value


def _start(connection: Connection, key: str) -> str:
    """Return the URI at which paths start: of the path in an extra, or of the root without it."""
    has_place = key in connection.extra_dejson
    return _uri(connection, _extra(connection, key, _HDFS_EXAMPLE) if has_place else "/")


def _uri(hdfs: Connection, path: str) -> str:
    if not path.startswith("/") and not is_shared(path):
        return path  # a URI has a host of its own
    if hdfs.conn_type == "file":
        return path if is_shared(path) else f"file://{path}"
    if is_shared(path):
        raise ConfigError(
            f"expected connection {hdfs.conn_id!r} to be of type file for a path of shared storage,"
            f" got type {hdfs.conn_type!r}; change the type, or name a path of HDFS"
        )
    if hdfs.conn_type not in _PORTS or not hdfs.host:
        raise ConfigError(
            f"expected connection {hdfs.conn_id!r} to be of type webhdfs, hdfs or file, the first"
            f" two with a host, got type {hdfs.conn_type!r}; change it: {_HDFS_EXAMPLE}"
        )
    if hdfs.conn_type == "hdfs" and hdfs.login:
        raise ConfigError(
            f"expected connection {hdfs.conn_id!r} of type hdfs to have no login: the client takes"
            " the account from HADOOP_USER_NAME in the environment of the worker; leave the login"
            " out, or change the type to webhdfs"
        )
    user = f"{hdfs.login}@" if hdfs.login else ""
    return f"{hdfs.conn_type}://{user}{hdfs.host}:{hdfs.port or _PORTS[hdfs.conn_type]}{path}"


def _kafka(name: str) -> KafkaSettings:
    example = _KAFKA_EXAMPLE.format(name=name)
    extra = _connection(name, example).extra_dejson
    if "recorded" in extra:
        remedy = (
            f"change 'recorded' of connection {name!r}, or give it the extra 'bootstrap.servers' of"
            " a broker in its place (Admin → Connections; for make ui, set TRAINFEED_KAFKA first)"
        )
        return KafkaSettings(recorded=str(extra["recorded"]), remedy=remedy)
    if "bootstrap.servers" not in extra:
        raise ConfigError(
            f"expected connection {name!r} to have the extra 'bootstrap.servers' or 'recorded',"
            f" got {sorted(extra)}; change it: {example}"
        )
    return KafkaSettings(client={key: _client_value(value) for key, value in extra.items()})


def _client_value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
