"""The folders and connections of a deployment, from variables and the files they name."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from trainfeed.core.config.variables import (
    is_public,
    place,
    root_place,
    setting,
    shown,
)
from trainfeed.core.datacenters import local_source, local_target
from trainfeed.errors import AccessDeniedError, ConfigError

# --- The connections of the command line, in a file because they may have passwords

_MAX_BYTES: Final = 4 << 20
_EXAMPLE: Final = '{"kafka_clicks": {"bootstrap.servers": "broker:9092"}}'


def read_connections(path: Path) -> Mapping[str, str | dict[str, str]]:
    """Return id → connection: a text is a place, a mapping has a client's settings.

    Raises:
        ConfigError: The file cannot be read, or has other content. The message has no values of
            the file, which may be secrets.
    """
    try:
        found = json.loads(_read(path))
    except OSError as error:
        raise ConfigError(f"cannot read the connections in {path}: {error.strerror}") from error
    except ValueError:
        # Without the parser's error, which quotes the text around the fault.
        raise ConfigError(f"expected JSON in {path}, for instance {_EXAMPLE}") from None
    if not isinstance(found, dict):
        raise ConfigError(f"expected {path} to hold an object, for instance {_EXAMPLE}")
    for name, connection in found.items():
        if not isinstance(connection, str) and not _is_client(connection):
            raise ConfigError(
                f"expected connection {name!r} in {path} to be a place of log files, or librdkafka"
                f" settings as texts with bootstrap.servers; for instance {_EXAMPLE}"
            )
    return found


def _read(path: Path) -> bytes:
    # Plain ``open``: a pipe is allowed, for example from a program that keeps secrets.
    with path.open("rb") as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise ConfigError(f"expected at most {_MAX_BYTES} bytes of connections in {path}, got more")
    return data


def _is_client(connection: Any) -> bool:
    return (
        isinstance(connection, dict)
        and "bootstrap.servers" in connection
        and all(isinstance(value, str) for value in connection.values())
    )


# --- The settings of clusters, servers and catalogues, for the command line: YAML

_MAX_SETTINGS_BYTES: Final = 1 << 20
_SECRETS: Final = frozenset({"token", "password", "credential"})
# Other accounts may do nothing with a file of secrets, and its group may at most read it.
_OPEN_MODE: Final = stat.S_IWGRP | stat.S_IXGRP | stat.S_IRWXO
_CLUSTER_EXAMPLE: Final = "kubernetes_default: {namespace: training, root: {path: /pfs/dataset}}"


def read_settings(path: Path) -> Mapping[str, Mapping[str, Any]]:
    """Return the settings of clusters, of servers or of catalogues, by connection id.

    Raises:
        ConfigError: The file cannot be read, is larger than 1 MiB, has another content, or has
            secrets and is open to other accounts. The message has no values of the file.
    """
    # The parser of YAML is for those who have such a file.
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(_MAX_SETTINGS_BYTES + 1)
        if len(data) > _MAX_SETTINGS_BYTES:
            raise ConfigError(f"expected at most {_MAX_SETTINGS_BYTES} bytes in {path}, got more")
        found = YAML(typ="safe", pure=True).load(data.decode())
    except OSError as error:
        raise ConfigError(f"cannot read the settings in {path}: {error.strerror}") from error
    except (UnicodeDecodeError, YAMLError) as error:
        # Without the parser's error, which quotes the text around the fault.
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f", line {mark.line + 1}"
        raise ConfigError(f"expected YAML in {path}{where}, such as '{_CLUSTER_EXAMPLE}'") from None
    if not isinstance(found, dict) or not all(
        isinstance(name, str) and isinstance(each, dict) for name, each in found.items()
    ):
        raise ConfigError(
            f"expected {path} to hold settings by connection id: '{_CLUSTER_EXAMPLE}'"
        )
    if mode & _OPEN_MODE and any(each.keys() & _SECRETS for each in found.values()):
        raise ConfigError(
            f"expected {path} to be closed to other accounts, because a token or password is in"
            f" it, got mode {stat.S_IMODE(mode):04o}; nothing was started; run: chmod 600 {path}"
        )
    return found


# --- The settings of Kafka clusters, and of recorded topics in the place of one

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


# --- The folders and connections of a deployment, from variables and the files that they name

KAFKA_CONNECTION: Final = "kafka_default"
LOGS_CONNECTION: Final = "hdfs_default"
REGISTRY_CONNECTION: Final = "registry_default"
CATALOG_CONNECTION: Final = "catalog_default"


@dataclass(frozen=True)
class Environment:
    """The folders and connections that a build reads and writes.

    Attributes:
        root: Absolute POSIX path of the publication root.
        landing: Absolute path or URI of the landing files.
        work: Absolute path or URI of spill files and other files between stages.
        kafka: Connection id → Kafka settings.
        datasets: Folder with one folder per data set.
        logs: Connection id → absolute path or URI at which the paths of log files start.
        clusters: Connection id → settings of a cluster that runs trainings.
        stores: Connection id → absolute path or URI at which the paths of transferred models start.
        trackers: Connection id → settings of a tracking server; they may hold secrets.
        spark: Connection id → settings of a Spark cluster; they may hold secrets.
        registries: Connection id → settings of a schema registry; they may hold secrets.
        catalogs: Connection id → settings of a catalogue of tables; they may hold secrets.
        root_setting: Name of the setting with ``root``, for messages.
        is_root_public: Whether ``root`` was named as ``pfs://public/…``, which is for reading.
        bucket: Address of the publication root in a bucket that ``root`` follows; None for a root
            on a file system.
        is_root_private: Whether ``root`` then is a private copy, no place to build.
    """

    root: str
    landing: str
    work: str
    kafka: Mapping[str, KafkaSettings]
    datasets: Path
    logs: Mapping[str, str] = field(default_factory=dict)
    clusters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    stores: Mapping[str, str] = field(default_factory=dict)
    trackers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    spark: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    registries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    catalogs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    root_setting: str = field(default="TRAINFEED_ROOT", compare=False)
    is_root_public: bool = field(default=False, compare=False)
    bucket: str | None = None
    is_root_private: bool = field(default=False, compare=False)

    @property
    def uses_object_stores(self) -> bool:
        """Whether workers read or write in a bucket, and so get keys of object stores.

        The root does not count: what they make is published by their parent. Without such a place
        the keys may be there for another program, and workers run the code of data sets.
        """
        recorded = (topics.recorded or "" for topics in self.kafka.values())
        places = (self.landing, self.work, *self.logs.values(), *recorded)
        return any(place.startswith("s3://") for place in places)

    def refuse_public_root(self) -> None:
        """Refuse to write to a root that was named as ``pfs://public/…``.

        Raises:
            AccessDeniedError: The root is such a one.
        """
        if self.is_root_public:
            raise AccessDeniedError(
                f"expected a publication root to write to, got {self.root} as pfs://public/…, which"
                f" is for reading; nothing was written; set {self.root_setting} to the folder that"
                " the public area is mounted on, or to another root"
            )


def environment_from_environ(
    *,
    root: str | None = None,
    landing: str | None = None,
    work: str | None = None,
    kafka: str | None = None,
    datasets: str | None = None,
    logs: str | None = None,
) -> Environment:
    """Return the environment of this process; an argument precedes its variable.

    The defaults are folders below ``TRAINFEED_DATA`` (``data`` in the working directory):
    ``root``, ``landing``, ``work``, and ``recorded`` for recorded topics; the paths of log files
    and of transferred models start at ``TRAINFEED_DATA`` itself. The default folder of data sets is
    ``include/datasets`` in the working directory.

    Raises:
        ConfigError: A setting is not valid; the message names the variable.
    """
    data = Path(local_target(setting("TRAINFEED_DATA", None, "data"))).absolute()
    clients, places = _connections()
    asked = setting("TRAINFEED_ROOT", root, data / "root")
    found = root_place("TRAINFEED_ROOT", asked)
    return Environment(
        root=found.folder,
        landing=place("TRAINFEED_LANDING", setting("TRAINFEED_LANDING", landing, data / "landing")),
        work=place("TRAINFEED_WORK", setting("TRAINFEED_WORK", work, data / "work")),
        kafka={
            KAFKA_CONNECTION: kafka_default(kafka, data / "recorded"),
            **clients,
        },
        datasets=Path(
            local_source(setting("TRAINFEED_DATASETS", datasets, "include/datasets"))
        ).absolute(),
        logs={
            LOGS_CONNECTION: place("TRAINFEED_LOGS", setting("TRAINFEED_LOGS", logs, data)),
            **places,
        },
        stores={
            LOGS_CONNECTION: place("TRAINFEED_MODELS", setting("TRAINFEED_MODELS", None, data)),
            **places,
        },
        clusters=_settings_file("TRAINFEED_CLUSTERS"),
        trackers=_settings_file("TRAINFEED_TRACKERS"),
        spark=_settings_file("TRAINFEED_SPARK"),
        registries=_servers("TRAINFEED_REGISTRY", "TRAINFEED_REGISTRIES", REGISTRY_CONNECTION),
        catalogs=_servers("TRAINFEED_CATALOG", "TRAINFEED_CATALOGS", CATALOG_CONNECTION),
        root_setting=_root_setting(root),
        is_root_public=is_public(asked),
        bucket=found.bucket,
        is_root_private=found.is_private,
    )


def _connections() -> tuple[dict[str, KafkaSettings], dict[str, str]]:
    """Return Kafka clusters and places of files by connection id."""
    if "TRAINFEED_CONNECTIONS" not in os.environ:
        return {}, {}
    found = read_connections(Path(setting("TRAINFEED_CONNECTIONS", None, "")))
    clients = {name: KafkaSettings(client=v) for name, v in found.items() if isinstance(v, dict)}
    places = {
        name: place(f"connection {name!r}", v) for name, v in found.items() if isinstance(v, str)
    }
    return clients, places


def _settings_file(variable: str) -> Mapping[str, Mapping[str, Any]]:
    if variable not in os.environ:
        return {}
    return read_settings(Path(setting(variable, None, "")))


def _servers(one: str, several: str, name: str) -> Mapping[str, Mapping[str, Any]]:
    """Return servers by connection id; a variable alone names one without credentials.

    Args:
        one: The variable with the URL of the server ``name``.
        several: The variable with the file of settings.
        name: The connection id.
    """
    found = dict(_settings_file(several))
    if one in os.environ:
        found[name] = {"url": setting(one, None, "")}
    return found


def _root_setting(given: str | None) -> str:
    if given is not None:
        return "the argument 'root'"
    return "TRAINFEED_ROOT" if "TRAINFEED_ROOT" in os.environ else "TRAINFEED_ROOT (it is not set)"
