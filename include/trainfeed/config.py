"""Folders and connections of a deployment; the only reader of ``os.environ``.

One ``dataset.yaml`` serves every environment; these settings differ. Airflow sets them from its
connections; all other programs use these variables::

    TRAINFEED_DATA         folder below which the others have their defaults
    TRAINFEED_ROOT         publication root: a folder of a POSIX file system
    TRAINFEED_LANDING      folder or URI of the landing files
    TRAINFEED_WORK         folder or URI of the files between two stages
    TRAINFEED_KAFKA        host:port[,host:port…], or recorded:<folder or URI of recorded topics>
    TRAINFEED_LOGS         folder or URI at which the paths of log files start
    TRAINFEED_MODELS       folder or URI at which the paths of transferred models start
    TRAINFEED_CONNECTIONS  file of further clusters, and of clusters with credentials
    TRAINFEED_CLUSTERS     file of the Kubernetes clusters that run trainings
    TRAINFEED_TRACKERS     file of the MLflow servers that trainings are delivered to
    TRAINFEED_DATASETS     folder of the data sets' folders
    TRAINFEED_TOKEN_FILE   file with the token for servers of trainfeed
    TRAINFEED_CA_FILE      certificates of the authorities that signed those of the servers

A launcher tells the ranks of a job by environment where they find what the job file names::

    TRAINFEED_JOB_ROOT     publication root, as the rank sees it
    TRAINFEED_JOB_CODE     folder of the data set's code
    TRAINFEED_JOB_MODEL    folder of the model that an evaluation is about, below that root
    TRAINFEED_RETRIES      restarts that the rank allows itself, if the cluster does not count them
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trainfeed._clusters_file import read_clusters
from trainfeed._connections_file import read_connections
from trainfeed.errors import ConfigError

__all__ = [
    "CA_FILE",
    "JOB_CODE",
    "JOB_MODEL",
    "JOB_RETRIES",
    "JOB_ROOT",
    "KAFKA_CONNECTION",
    "LOGS_CONNECTION",
    "RENDEZVOUS",
    "TOKEN_FILE",
    "Environment",
    "KafkaSettings",
    "command_environ",
    "environment_from_environ",
    "job_model",
    "job_places",
    "name_hadoop_user",
    "name_rank",
    "rank_variables",
    "rendezvous",
    "service_files",
    "training_environ",
    "worker_environ",
]

CA_FILE = "TRAINFEED_CA_FILE"
JOB_CODE = "TRAINFEED_JOB_CODE"
JOB_MODEL = "TRAINFEED_JOB_MODEL"
JOB_RETRIES = "TRAINFEED_RETRIES"
JOB_ROOT = "TRAINFEED_JOB_ROOT"
RENDEZVOUS = "TRAINFEED_RENDEZVOUS"
TOKEN_FILE = "TRAINFEED_TOKEN_FILE"  # noqa: S105 (the name of a variable)
KAFKA_CONNECTION = "kafka_default"
LOGS_CONNECTION = "hdfs_default"

_RECORDED = "recorded:"
# Variables for the code of data sets. All others stay out, because the environment of an Airflow
# worker has connections and keys.
_INHERITED = (
    "CUDA_VISIBLE_DEVICES",
    "HOME",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "OMP_NUM_THREADS",
    "PATH",
    "TMPDIR",
    "TRAINFEED_FAULTS",
    "TZ",
)
# Variables for the clients of storage: names, places, and the place of a Kerberos ticket.
_OF_STORAGE = (
    "HADOOP_CONF_DIR",
    "HADOOP_HOME",
    "HADOOP_PROXY_USER",
    "HADOOP_TOKEN_FILE_LOCATION",
    "HADOOP_USER_NAME",
    "KRB5CCNAME",
    "KRB5_CLIENT_KTNAME",
    "KRB5_CONFIG",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
)
_BROKER = re.compile(r"[A-Za-z0-9._-]+:[0-9]{1,5}|\[[0-9A-Fa-f:]+\]:[0-9]{1,5}")
_SCHEMES = ("file", "hdfs", "webhdfs")


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
        root_setting: Name of the setting with ``root``, for messages.
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
    root_setting: str = field(default="TRAINFEED_ROOT", compare=False)


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
    data = Path(_setting("TRAINFEED_DATA", None, "data")).absolute()
    clients, places = _connections()
    return Environment(
        root=_posix_path("TRAINFEED_ROOT", _setting("TRAINFEED_ROOT", root, data / "root")),
        landing=_place(
            "TRAINFEED_LANDING", _setting("TRAINFEED_LANDING", landing, data / "landing")
        ),
        work=_place("TRAINFEED_WORK", _setting("TRAINFEED_WORK", work, data / "work")),
        kafka={
            KAFKA_CONNECTION: _kafka_default(kafka, data / "recorded"),
            **clients,
        },
        datasets=Path(_setting("TRAINFEED_DATASETS", datasets, "include/datasets")).absolute(),
        logs={
            LOGS_CONNECTION: _place("TRAINFEED_LOGS", _setting("TRAINFEED_LOGS", logs, data)),
            **places,
        },
        stores={
            LOGS_CONNECTION: _place("TRAINFEED_MODELS", _setting("TRAINFEED_MODELS", None, data)),
            **places,
        },
        clusters=_settings_file("TRAINFEED_CLUSTERS"),
        trackers=_settings_file("TRAINFEED_TRACKERS"),
        root_setting=_root_setting(root),
    )


def job_places() -> tuple[Path | None, Path | None]:
    """Return publication root and code folder as a rank sees them; None for one that is not set."""
    root, code = (os.environ.get(name) for name in (JOB_ROOT, JOB_CODE))
    return Path(root) if root else None, Path(code) if code else None


def job_model() -> str | None:
    """The folder that ``TRAINFEED_JOB_MODEL`` names, relative to the root; None in a training."""
    return os.environ.get(JOB_MODEL) or None


def rank_variables(names: Iterable[str]) -> dict[str, str]:
    """What a cluster tells a rank: the variables of these names that are set."""
    return {name: os.environ[name] for name in names if os.environ.get(name)}


def name_rank(values: Mapping[str, str]) -> None:
    """Set variables of this process, by which frameworks find their rank."""
    os.environ.update(values)


def name_hadoop_user(user: str) -> None:
    """Set ``HADOOP_USER_NAME``, from which the client of HDFS takes the user once per process.

    Raises:
        ConfigError: The variable names another user.
    """
    found = os.environ.setdefault("HADOOP_USER_NAME", user)
    if found != user:
        raise ConfigError(
            f"expected HADOOP_USER_NAME to be {user!r}, or not set, got {found!r}; nothing was"
            " transferred; unset it, or name the same user in both places"
        )


def rendezvous() -> str | None:
    """Where the ranks of this job meet, as a URL for frameworks; None where nothing says it."""
    if os.environ.get("MASTER_ADDR") and os.environ.get("MASTER_PORT"):
        return "env://"
    return os.environ.get(RENDEZVOUS) or None


def service_files() -> tuple[Path | None, Path | None]:
    """Return the files with token and authorities for servers; None for one that is not set."""
    token, authorities = (os.environ.get(name) for name in (TOKEN_FILE, CA_FILE))
    return Path(token) if token else None, Path(authorities) if authorities else None


def training_environ(package: str, job: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for a training process: those that programs need, no credentials.

    Args:
        package: Folder of the package trainfeed; becomes the first of ``PYTHONPATH``.
        job: Variables of the job.
    """
    kept = _kept(_INHERITED)
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    # No bytecode: Python compares a cached compilation by size and second only, while the code of a
    # job is identified by a digest.
    fixed = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
    return {**kept, **job, **fixed, "PYTHONPATH": os.pathsep.join(paths)}


def command_environ() -> dict[str, str]:
    """Return all variables of this process, for a command that it runs with the same rights.

    With ``PYTHONPATH``, the command finds the same package trainfeed.
    """
    package = str(Path(__file__).parents[1])
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def worker_environ() -> dict[str, str]:
    """Return the variables for a process that runs preprocessing functions: no credentials.

    Besides the variables that programs need, these are the ones for clients of storage: the
    process reads landing files or logs, and writes spill files.
    """
    return _kept((*_INHERITED, *_OF_STORAGE))


def _kept(names: Iterable[str]) -> dict[str, str]:
    return {name: os.environ[name] for name in names if name in os.environ}


def _connections() -> tuple[dict[str, KafkaSettings], dict[str, str]]:
    """Return Kafka clusters and places of files by connection id."""
    if "TRAINFEED_CONNECTIONS" not in os.environ:
        return {}, {}
    found = read_connections(Path(_setting("TRAINFEED_CONNECTIONS", None, "")))
    clients = {name: KafkaSettings(client=v) for name, v in found.items() if isinstance(v, dict)}
    places = {
        name: _place(f"connection {name!r}", v) for name, v in found.items() if isinstance(v, str)
    }
    return clients, places


def _settings_file(variable: str) -> Mapping[str, Mapping[str, Any]]:
    if variable not in os.environ:
        return {}
    return read_clusters(Path(_setting(variable, None, "")))


def _setting(variable: str, given: str | None, default: str | Path) -> str:
    value = given if given is not None else os.environ.get(variable, str(default))
    if not value or "\0" in value:
        raise ConfigError(
            f"expected {variable} to name a place, got {_shown(value)!r}; set or unset it"
        )
    return value


def _root_setting(given: str | None) -> str:
    if given is not None:
        return "the argument 'root'"
    return "TRAINFEED_ROOT" if "TRAINFEED_ROOT" in os.environ else "TRAINFEED_ROOT (it is not set)"


def _posix_path(variable: str, value: str) -> str:
    scheme, separator, rest = value.partition("://")
    if not separator:
        return str(Path(value).absolute())
    if scheme != "file" or not rest.startswith("/"):
        raise ConfigError(
            f"expected {variable} to be a folder of a mounted file system, got {_shown(value)!r};"
            " publication needs its atomic rename"
        )
    return rest


def _place(variable: str, value: str) -> str:
    scheme, separator, _ = value.partition("://")
    if not separator:
        return str(Path(value).absolute())
    if scheme not in _SCHEMES:
        raise ConfigError(
            f"expected {variable} to be a path or a URI of {', '.join(_SCHEMES)},"
            f" got {_shown(value)!r}"
        )
    return value


def _shown(value: str) -> str:
    """Return a setting for messages, without the text before an @, which may be a password."""
    return re.sub(r"^([a-z0-9]+://)?.*@", r"\1…@", value)


def _kafka_default(given: str | None, recorded: Path) -> KafkaSettings:
    found = _kafka(_setting("TRAINFEED_KAFKA", given, f"{_RECORDED}{recorded}"))
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
        return KafkaSettings(recorded=_place("TRAINFEED_KAFKA", recorded))
    brokers = value.split(",")
    if not all(_BROKER.fullmatch(broker) for broker in brokers):
        raise ConfigError(
            "expected TRAINFEED_KAFKA to be host:port[,host:port…] or recorded:<folder>,"
            f" got {_shown(value)!r}"
        )
    return KafkaSettings(client={"bootstrap.servers": value})
