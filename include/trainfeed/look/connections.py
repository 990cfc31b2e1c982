"""Whether the clusters, file systems and stores answer that data sets name: one line for each.

Each is asked what a build asks it first, and nothing is written. Only the credentials of the
settings are used.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from trainfeed.core.config import Environment, KafkaSettings, hadoop_folder, kerberos_places
from trainfeed.core.patience import answer_within
from trainfeed.core.printable_text import url_as_shown
from trainfeed.errors import (
    AccessDeniedError,
    ConfigError,
    NotFoundError,
    SpecError,
    TableNotFoundError,
    TopicNotFoundError,
    TrainFeedError,
)
from trainfeed.files.stores import Location
from trainfeed.pipeline.inputs.catalogs import open_table
from trainfeed.pipeline.inputs.logs import log_location
from trainfeed.pipeline.inputs.registries import SchemaRegistry, registry_settings
from trainfeed.pipeline.inputs.topics import open_source
from trainfeed.pipeline.spark.cluster import SparkCluster
from trainfeed.specification import DatasetSpec, OneSource, load_specs, logs_root, registries_of
from trainfeed.training.jobs.kubernetes.settings import ClusterSettings
from trainfeed.training.tracking.mlflow import tracker_settings
from trainfeed.training.transfers import store_place
from trainfeed.versions.root import data_sets_of, follow_environment, require_readable_root

# --- A connection that settings name, and what came of asking it

DEADLINE_S: Final = 10.0


@dataclass(frozen=True)
class Connection:
    """A connection that the settings name.

    Attributes:
        name: Its id, or the setting that names it.
        kind: What it is.
        place: Where it is, without secrets.
        used_by: The data sets that name it; empty for what all of them use.
        ask: Asks it, and returns what it answered; raises what a build would raise.
    """

    name: str
    kind: str
    place: str
    used_by: tuple[str, ...]
    ask: Callable[[], str]


@dataclass(frozen=True)
class Answer:
    """What came of asking a connection.

    Attributes:
        connection: The connection.
        is_ok: Whether a build gets what it needs, as far as it was asked for.
        message: What was found; or what is wrong, and what to do.
    """

    connection: Connection
    is_ok: bool
    message: str

    def to_json(self) -> dict[str, Any]:
        """Return the answer as JSON; it has no secrets."""
        asked = self.connection
        return {
            "name": asked.name,
            "kind": asked.kind,
            "place": asked.place,
            "used_by": list(asked.used_by),
            "ok": self.is_ok,
            "message": self.message,
        }


def check_connections(env: Environment, *, deadline_s: float = DEADLINE_S) -> list[Answer]:
    """Ask every connection that a data set of the environment names, all at once.

    Args:
        env: The folders and connections, whose ``datasets`` has the data sets.
        deadline_s: Seconds after which what has not answered has failed.

    Returns:
        An answer for each connection, by kind; a wrong specification is one, too.

    Raises:
        ConfigError: The folder of data sets cannot be listed.
    """
    found = load_specs(env.datasets)
    specs = [each for each in found if isinstance(each, DatasetSpec)]
    wrong = [
        Answer(Connection("dataset.yaml", "specification", str(env.datasets), (), str), False, text)
        for text in (str(each) for each in found if isinstance(each, SpecError))
    ]
    connections = [each for kind in KINDS for each in kind(env, specs)]
    return [*wrong, *_answers(connections, deadline_s)]


def _answers(connections: Sequence[Connection], deadline_s: float) -> list[Answer]:
    """Ask all at once."""
    with ThreadPoolExecutor(max(1, len(connections)), "connection") as pool:
        return list(pool.map(partial(_answer, deadline_s), connections))


def _answer(deadline_s: float, connection: Connection) -> Answer:
    try:
        return Answer(connection, True, answer_within(deadline_s, connection.ask))
    except TimeoutError as error:
        advice = "look whether it runs, and whether a firewall is between, then try again"
        return Answer(connection, False, f"{error}; {advice}")
    except (TrainFeedError, OSError) as error:
        text = str(error)
        is_standby = isinstance(error, TrainFeedError) and _STANDBY.search(text)
        return Answer(connection, False, f"{text}; {_OTHER_NAME_NODE}" if is_standby else text)


# --- The kinds of connections: each yields those that data sets name; a new kind adds its row

Kind: TypeAlias = Callable[[Environment, Sequence[DatasetSpec]], Iterator[Connection]]


def _by_name(pairs: Iterable[tuple[str, str, Any]]) -> dict[str, tuple[tuple[str, ...], list[Any]]]:
    """Return name of a connection → the data sets that name it, and what each wants of it."""
    found: dict[str, tuple[tuple[str, ...], list[Any]]] = {}
    for name, dataset, wanted in pairs:
        users, all_wanted = found.get(name, ((), []))
        users = users if dataset in users else (*users, dataset)
        found[name] = users, [*all_wanted, *([] if wanted in all_wanted else [wanted])]
    return found


def _sources(specs: Sequence[DatasetSpec]) -> Iterator[tuple[DatasetSpec, OneSource]]:
    return ((spec, source) for spec in specs for source in spec.all_parts)


def _kafka(env: Environment, specs: Sequence[DatasetSpec]) -> Iterator[Connection]:
    every = ((spec, topic) for spec, source in _sources(specs) for topic in source.kafka)
    named = ((topic.connection, spec.name, topic.topic) for spec, topic in every)
    for name, (users, topics) in _by_name(named).items():
        settings = env.kafka.get(name, KafkaSettings())
        place = settings.recorded or settings.client.get("bootstrap.servers", "")
        kind = "recorded topics" if settings.recorded else "Kafka cluster"
        yield Connection(name, kind, place, users, partial(_ask_topics, env, name, topics))


def _ask_topics(env: Environment, name: str, topics: Sequence[str]) -> str:
    _refuse_gssapi(env.kafka.get(name, KafkaSettings()).client)
    clusters, found, missing = set[str](), list[str](), list[str]()
    for topic in topics:
        try:
            with open_source(env, name, topic) as opened:
                clusters.add(opened.identity.cluster)
                found.append(f"{topic} ({len(opened.partitions())} partitions)")
        except TopicNotFoundError as error:
            missing.append(str(error))
    if missing:
        raise TopicNotFoundError("; ".join(missing))
    return f"cluster {', '.join(clusters)}, topics {', '.join(found)}"


def _registries(env: Environment, specs: Sequence[DatasetSpec]) -> Iterator[Connection]:
    named = (
        (name, spec.name, None)
        for spec, source in _sources(specs)
        for name in registries_of(source.kind)
    )
    for name, (users, _) in _by_name(named).items():
        place = url_as_shown(str(env.registries.get(name, {}).get("url", "")))
        yield Connection(name, "schema registry", place, users, partial(_ask_registry, env, name))


def _ask_registry(env: Environment, name: str) -> str:
    with closing(SchemaRegistry(name, registry_settings(env.registries, name))) as registry:
        return f"has schemas of the kinds {', '.join(registry.kinds())}"


def _catalogs(env: Environment, specs: Sequence[DatasetSpec]) -> Iterator[Connection]:
    named = (
        (source.iceberg.catalog, spec.name, source.iceberg.table)
        for spec, source in _sources(specs)
        if source.iceberg is not None
    )
    for name, (users, tables) in _by_name(named).items():
        place = url_as_shown(str(env.catalogs.get(name, {}).get("url", "")))
        yield Connection(
            name, "catalogue of tables", place, users, partial(_ask_catalog, env, name, tables)
        )


def _ask_catalog(env: Environment, name: str, tables: Sequence[str]) -> str:
    found, missing = list[str](), list[str]()
    for table in tables:
        try:
            commits = open_table(env.catalogs, name, table).commits
            found.append(f"{table} ({len(commits)} snapshots)")
        except TableNotFoundError as error:
            missing.append(str(error))
    if missing:
        raise TableNotFoundError("; ".join(missing))
    return f"has tables {', '.join(found)}"


def _logs(env: Environment, specs: Sequence[DatasetSpec]) -> Iterator[Connection]:
    named = (
        (source.logs.connection, spec.name, logs_root(source.logs.path))
        for spec, source in _sources(specs)
        if source.logs is not None
    )
    for name, (users, folders) in _by_name(named).items():
        asked = [partial(log_location, env, name, folder) for folder in folders]
        yield Connection(name, "log files", env.logs.get(name, ""), users, partial(_ask, asked))


def _models(env: Environment, specs: Sequence[DatasetSpec]) -> Iterator[Connection]:
    named = (
        (folder.connection, spec.name, folder)
        for spec in specs
        if spec.train is not None and (model := spec.train.model) is not None
        for folder in (model.download, model.upload)
        if folder is not None
    )
    for name, (users, folders) in _by_name(named).items():
        asked = [partial(store_place, env, folder) for folder in folders]
        place = env.stores.get(name, "")
        yield Connection(name, "store of models", place, users, partial(_ask, asked))


def _ask(places: Sequence[Callable[[], Location]]) -> str:
    """Look for folders, all on one file system."""
    locations = [place() for place in places]
    for location in locations:
        _check_form(location)
    missing = [each.uri for each in locations if not each.exists()]
    if missing:
        raise NotFoundError(
            f"it answers, but has no {', '.join(missing)}; make the folder, or correct the path in"
            " dataset.yaml or the place of the connection"
        )
    return f"has {', '.join(each.uri for each in locations)}"


def _root(env: Environment, _: Sequence[DatasetSpec]) -> Iterator[Connection]:
    def ask() -> str:
        follow_environment(env)
        require_readable_root(Path(env.root), env.root_setting)
        number = len(data_sets_of(env.root))
        if env.is_root_public:
            return f"{number} data sets, for reading"
        if not os.access(env.root, os.W_OK | os.X_OK):
            raise AccessDeniedError(
                f"{env.root}: this account may not write there, so it can read versions and"
                " publish none; ask the owner of the folder, or change"
                f" {env.root_setting}"
            )
        return f"{number} data sets, this account may write"

    yield Connection(env.root_setting.split(" (")[0], "publication root", env.root, (), ask)


def _working_folders(env: Environment, _: Sequence[DatasetSpec]) -> Iterator[Connection]:
    def ask(place: str) -> str:
        location = Location.parse(place)
        _check_form(location)
        return "is there" if location.exists() else "answers; the first build makes the folder"

    for name, kind in (("landing", "landing files"), ("work", "work files")):
        place = getattr(env, name)
        yield Connection(f"TRAINFEED_{name.upper()}", kind, place, (), partial(ask, place))


def _settings_alone(env: Environment, specs: Sequence[DatasetSpec]) -> Iterator[Connection]:
    """Yield what is checked for form: asking it would need the program that uses it."""
    spark = (
        (s.preprocess.connection, s.name, None) for s in specs if s.preprocess.engine == "spark"
    )
    trains = [(spec.name, spec.train) for spec in specs if spec.train is not None]
    clusters = ((train.connection, name, None) for name, train in trains if not train.is_local)
    mlflow = (
        (train.tracking.mlflow, name, None) for name, train in trains if train.tracking.mlflow
    )
    of_form: tuple[tuple[str, Any, Mapping[str, Any], Callable[[str], object]], ...] = (
        ("Spark cluster", spark, env.spark, partial(SparkCluster.of, env.spark)),
        ("Kubernetes cluster", clusters, env.clusters, partial(ClusterSettings.of, env.clusters)),
        ("MLflow server", mlflow, env.trackers, partial(tracker_settings, env.trackers)),
    )
    for kind, named, settings, read in of_form:
        for name, (users, _) in _by_name(named).items():
            shown = settings.get(name, {})
            place = str(shown.get("master") or shown.get("url") or shown.get("namespace") or "")
            asked = partial(_form_of, read, name)
            yield Connection(name, kind, url_as_shown(place), users, asked)


def _form_of(read: Callable[[str], object], name: str) -> str:
    read(name)
    return "its settings have the right form; it was not asked"


KINDS: Final[tuple[Kind, ...]] = (
    _kafka,
    _registries,
    _catalogs,
    _logs,
    _models,
    _root,
    _working_folders,
    _settings_alone,
)

# --- What can be said of settings without asking anybody: Kerberos, and names of HDFS

_GSSAPI: Final = "GSSAPI"
_STANDBY: Final = re.compile(r"StandbyException|state standby")
_OTHER_NAME_NODE: Final = (
    "this NameNode is on standby: name the active one, or, with hdfs://, the name service of"
    " hdfs-site.xml, by which the client finds it"
)
_MOST_BYTES: Final = 1 << 20
_PROPERTY: Final = re.compile(r"<property>(.*?)</property>", re.DOTALL)
_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
_PRINCIPAL: Final = re.compile(r"[^/@\s]+/[^/@\s]+@[^/@\s]+")
_LIBRARY: Final = "libgssapi_krb5.so.2"


def _refuse_gssapi(client: Mapping[str, str]) -> None:
    """Refuse Kerberos for Kafka with what can be had instead.

    Raises:
        ConfigError: The settings ask for it.
    """
    if _GSSAPI in (client.get("sasl.mechanism"), client.get("sasl.mechanisms")):
        raise ConfigError(
            "sasl.mechanism GSSAPI (Kerberos) is not in the wheels of confluent-kafka, so nothing"
            " was asked; name SCRAM-SHA-512, SCRAM-SHA-256 or PLAIN with sasl.username and"
            " sasl.password, or a listener that takes certificates (ssl.certificate.pem,"
            " ssl.key.pem)"
        )


def _check_form(location: Location) -> None:
    """Check what the settings of Hadoop say of an HDFS, before it is asked.

    Raises:
        ConfigError: The address is none, or Kerberos is asked for and not prepared.
    """
    if location.fs.scheme not in {"hdfs", "webhdfs"}:
        return
    found = hadoop_settings()
    is_kerberos = found.get("hadoop.security.authentication", "simple").lower() == "kerberos"
    if location.fs.scheme == "webhdfs":
        if is_kerberos:
            raise ConfigError(
                "core-site.xml asks for Kerberos, which is not built for webhdfs://; nothing was"
                " asked; name the same HDFS as hdfs://"
            )
        return
    _check_name_service(getattr(location.fs, "address", ""), found)
    if is_kerberos:
        _check_kerberos(found)


def hadoop_settings() -> dict[str, str]:
    """Return the properties of core-site.xml and hdfs-site.xml; those that are not there: none.

    Raises:
        ConfigError: A file is larger than 1 MiB, or cannot be read.
    """
    folder, found = hadoop_folder(), dict[str, str]()
    for name in ("core-site.xml", "hdfs-site.xml") if folder is not None else ():
        path = Path(folder or "", name)
        try:
            with path.open("rb") as file:
                data = file.read(_MOST_BYTES + 1)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}") from error
        if len(data) > _MOST_BYTES:
            raise ConfigError(f"expected at most {_MOST_BYTES} bytes in {path}, got more")
        for text in _PROPERTY.findall(_COMMENT.sub("", data.decode(errors="replace"))):
            found[_tag(text, "name")] = _tag(text, "value")
    return found


def _tag(text: str, name: str) -> str:
    match = re.search(rf"<{name}>(.*?)</{name}>", text, re.DOTALL)
    return match[1].strip() if match else ""


def _check_name_service(address: str, found: Mapping[str, str]) -> None:
    if ":" in address:
        return
    services = found.get("dfs.nameservices", "").replace(",", " ").split()
    nodes = [
        n.strip() for n in found.get(f"dfs.ha.namenodes.{address}", "").split(",") if n.strip()
    ]
    needed = [f"dfs.namenode.rpc-address.{address}.{node}" for node in nodes]
    lacking = [key for key in needed if not found.get(key)]
    if address not in services or not nodes or lacking:
        folder = hadoop_folder()
        where = "HADOOP_CONF_DIR is not set" if folder is None else f"{folder} does not have it"
        lacks = lacking[0] if lacking else f"dfs.ha.namenodes.{address}"
        lacks = lacks if address in services else f"dfs.nameservices with {address}"
        raise ConfigError(
            f"expected hdfs://host:port, or a name service of hdfs-site.xml, got {address!r}"
            f" without {lacks}: {where}; nothing was asked; set HADOOP_CONF_DIR to the folder of"
            " the cluster's configuration, or name host and port"
        )


def _check_kerberos(found: Mapping[str, str]) -> None:
    principal = found.get("dfs.namenode.kerberos.principal", "")
    if not _PRINCIPAL.fullmatch(principal):
        raise ConfigError(
            "core-site.xml asks for Kerberos: expected dfs.namenode.kerberos.principal in"
            f" hdfs-site.xml as service/host@REALM, got {principal!r}; nothing was asked; copy it"
            " from the cluster's configuration"
        )
    try:
        ctypes.CDLL(_LIBRARY)
    except OSError:
        raise ConfigError(
            f"core-site.xml asks for Kerberos, and {_LIBRARY} is not installed; nothing was asked;"
            " on Debian: apt-get install libgssapi-krb5-2 krb5-user"
        ) from None
    places = {"KRB5CCNAME": f"/tmp/krb5cc_{os.getuid()}", **kerberos_places()}  # noqa: S108
    files = {name: Path(text.removeprefix("FILE:")) for name, text in places.items()}
    for name in ("KRB5_CONFIG", "KRB5_CLIENT_KTNAME"):
        if name in files and not files[name].is_file():
            raise ConfigError(
                f"core-site.xml asks for Kerberos: expected a file, {name} names {files[name]},"
                " which is none; nothing was asked; correct the variable"
            )
    is_cache_elsewhere = re.match("[A-Z]+:", places["KRB5CCNAME"].removeprefix("FILE:"))
    has_ticket = is_cache_elsewhere or files["KRB5CCNAME"].is_file()
    if not has_ticket and "KRB5_CLIENT_KTNAME" not in files:
        raise ConfigError(
            f"core-site.xml asks for Kerberos, and there is no ticket in {files['KRB5CCNAME']};"
            " nothing was asked; run kinit, or set KRB5_CLIENT_KTNAME to a file of keys"
        )
