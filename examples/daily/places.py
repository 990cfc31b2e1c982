"""The places of a run: local files and a recorded topic, or a real Kafka and HDFS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final

from examples.daily.connections import connections_of, settings_told, taken_environment
from examples.flights.events import read_events, select_days
from examples.flights.lookups import write_lookups
from services import hdfs, kafka
from services._home import REPOSITORY
from trainfeed.core.config import KAFKA_CONNECTION, LOGS_CONNECTION, Environment, KafkaSettings
from trainfeed.files.stores import Location
from trainfeed.versions import init_root

__all__ = [
    "Places",
    "asked",
    "asked_environ",
    "embedded",
    "embedded_environ",
    "home_of",
    "make_lookups",
    "real",
    "real_environ",
]

DATASET: Final = "flights"
_SOURCE: Final = REPOSITORY / "data" / "nycflights13"
_LOOKUPS: Final = ("planes.parquet", "weather.parquet")
# What `make digits` and `make ctr` have written, where the paths of log files start.
_LOGS: Final = REPOSITORY / "data" / "logs"
_OF_LOGS: Final = ("ctr", "digits")

Tell = Callable[[str], object]
# Events after the last day: the end of its window is then seen in the log, not taken from its end.
_FOLLOWING: Final = 200


@dataclass(frozen=True)
class Places:
    """Places and connections of a run.

    Attributes:
        title: For the first line of output.
        home: State directory of the Airflow.
        root: Publication root.
        environ: Environment of the Airflow: connections and the folder of data sets.
    """

    title: str
    home: Path
    root: Path
    environ: dict[str, str]


def home_of(data: Path) -> Path:
    """State directory of the Airflow whose versions and landing files lie in ``data``."""
    return data / "airflow"


def make_lookups(tell: Tell = str) -> None:
    """Write the lookup files of ``flights`` beside its specification, unless they are there.

    Args:
        tell: Told what is made, if anything is.
    """
    folder = REPOSITORY / "include" / "datasets" / DATASET
    made = _SOURCE / ".done"
    since_s = made.stat().st_mtime if made.exists() else 0.0
    files = [folder / name for name in _LOOKUPS]
    if not all(file.exists() and file.stat().st_mtime >= since_s for file in files):
        tell("making the lookup files of flights")
        write_lookups(_SOURCE, folder)


def embedded(data: Path, tell: Tell = str) -> Places:
    """Record the year as a topic below ``data``, unless it is there, and stay on local files.

    Args:
        data: Folder of all that is made.
        tell: Told what is made, if anything is.
    """
    _record(data, tell)
    init_root(data / "root")
    environ = embedded_environ(data)
    return Places("recorded topic, local files", home_of(data), data / "root", environ)


def embedded_environ(data: Path) -> dict[str, str]:
    """The connections of an Airflow that stays on local files; nothing is made."""
    recorded = KafkaSettings(recorded=str(data / "recorded"))
    places = {name: str(data / name) for name in ("root", "landing", "work")}
    return connections_of(_environment(recorded, **places, logs=str(data)), data)


def asked(data: Path, tell: Tell = str) -> Places:
    """Take the places that the settings of commands name, and those of ``embedded`` otherwise.

    Args:
        data: Folder of all that is made; nothing is made in a place that a setting names.
        tell: Told which settings were taken, and what is made, if anything is.

    Raises:
        ConfigError: A setting is not valid; the message names the variable.
    """
    env = taken_environment(data)
    told = settings_told()
    if told:
        tell(f"taken from the environment: {', '.join(told)}")
    if env.kafka[KAFKA_CONNECTION].recorded == str(data / "recorded"):
        _record(data, tell)
    root = Path(env.root)
    if root == data / "root":
        init_root(root)
    title = "places of the environment" if told else "recorded topic, local files"
    return Places(title, home_of(data), root, connections_of(env, data))


def asked_environ(data: Path) -> dict[str, str]:
    """The connections of ``asked``; nothing is made."""
    return connections_of(taken_environment(data), data)


def _record(data: Path, tell: Tell) -> None:
    from examples.flights.recording import record

    topic = data / "recorded" / DATASET
    if not (topic / "TOPIC.json").exists():
        tell("recording the events of 2013 as a topic")
        record(read_events(_SOURCE), topic, topic=DATASET)


def _environment(kafka: KafkaSettings, *, logs: str, **places: Any) -> Environment:
    return Environment(
        **places,
        kafka={KAFKA_CONNECTION: kafka},
        datasets=REPOSITORY / "include" / "datasets",
        logs={LOGS_CONNECTION: logs},
        stores={LOGS_CONNECTION: logs},
    )


def real(data: Path, first: date, days: int) -> Places:
    """Start Kafka and HDFS, replay the days that are asked for, and bring the log files."""
    from examples.flights.producer import produce

    broker, storage = kafka.Kafka(), hdfs.Hdfs()
    for service in (broker, storage):
        if reason := service.unavailable():
            raise SystemExit(f"{service.name} cannot run here: {reason}")
        service.install()
        service.start()
    for service in (broker, storage):
        service.wait()
    last = first + timedelta(days=days - 1)
    events = select_days(read_events(_SOURCE), first, last, following=_FOLLOWING)
    servers = broker.exports()["TEST_KAFKA_BOOTSTRAP_SERVERS"]
    data.mkdir(parents=True, exist_ok=True)
    produce(events, bootstrap_servers=servers, topic=DATASET, ledger_path=data / "produced.sqlite")
    _bring_logs(storage.exports()["TEST_WEBHDFS_URI"])
    init_root(data / "root")
    environ = real_environ(data)
    return Places("real Kafka, landing on real HDFS", home_of(data), data / "root", environ)


def real_environ(data: Path) -> dict[str, str]:
    """The connections of an Airflow on Kafka and HDFS, whether or not they run."""
    start = hdfs.Hdfs().exports()["TEST_WEBHDFS_URI"].rstrip("/")
    servers = kafka.Kafka().exports()["TEST_KAFKA_BOOTSTRAP_SERVERS"]
    places = {name: f"{start}/trainfeed/{name}" for name in ("landing", "work")}
    broker = KafkaSettings(client={"bootstrap.servers": servers})
    env = _environment(broker, root=str(data / "root"), **places, logs=f"{start}/")
    return connections_of(env, data)


def _bring_logs(hdfs: str) -> None:
    """Copy the days of log files that were written here, and that HDFS does not have."""
    for name in _OF_LOGS:
        target = Location.parse(hdfs) / "logs" / name
        for day in sorted((_LOGS / name).glob("dt=*")):
            # The marker of a complete day is written last.
            for file in sorted(day.iterdir(), key=_is_marker):
                copy = target / day.name / file.name
                if not copy.exists():
                    copy.write_atomic(partial(_write, data=file.read_bytes()))


def _is_marker(file: Path) -> bool:
    return file.name.startswith("_")


def _write(file: BinaryIO, data: bytes) -> None:
    file.write(data)
