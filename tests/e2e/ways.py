"""The ways to build three days, each with root, landing, work and AIRFLOW_HOME of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import uuid
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from services._home import REPOSITORY
from services.airflow import AirflowOptions, AirflowStack
from trainfeed import open_dataset
from trainfeed.errors import NotFoundError
from trainfeed.versions import DatasetFolder, Version, init_root

FIRST = datetime(2013, 1, 1, tzinfo=UTC)
DAYS = [FIRST + timedelta(days=n) for n in range(3)]
NAMES = [f"{day:%Y-%m-%d}" for day in DAYS]
BUILD, TRAIN = "build.flights", "train.flights"
RUN_S = 600.0
START_S = 300.0  # of an Airflow on a machine that does much else


@dataclass(frozen=True)
class Ground:
    """Where one way builds.

    Attributes:
        path: Folder of everything that is local.
        root: Publication root.
        datasets: A copy of ``include/datasets``.
        kafka: Extra of the connection: a broker, or a recorded topic.
        faults: Points at which ``action`` happens to a task, once each.
        environ: Further variables of its Airflow.
        dataset: Name of the data set.
        folders: Folders of the connection to HDFS, below the ground's own.
    """

    path: Path
    root: Path
    datasets: Path
    kafka: dict[str, str]
    faults: tuple[str, ...] = ()
    action: str = "kill"
    environ: dict[str, str] = field(default_factory=dict)
    dataset: str = "flights"
    folders: tuple[str, ...] = ("landing", "work")
    hdfs: str = field(default_factory=lambda: f"/e2e/{uuid.uuid4().hex}")

    @classmethod
    def make(cls, path, kafka, *, root=None, edits=(), faults=(), dataset="flights"):
        datasets = path / "datasets"
        shutil.copytree(REPOSITORY / "include/datasets" / dataset, datasets / dataset)
        spec = datasets / dataset / "dataset.yaml"
        for old, new in edits:
            assert old in spec.read_text()
            spec.write_text(spec.read_text().replace(old, new))
        root = root or path / "root"
        init_root(root)
        (path / "fired").mkdir()
        return cls(path, root, datasets, kafka, tuple(faults), dataset=dataset)

    @classmethod
    def of_texts(cls, path, dataset, files, kafka, **more):
        """Where a data set is built whose files are given as texts."""
        folder = path / "datasets" / dataset
        folder.mkdir(parents=True)
        for name, text in files.items():
            (folder / name).write_text(text)
        init_root(path / "root")
        (path / "fired").mkdir()
        return cls(path, path / "root", path / "datasets", kafka, dataset=dataset, **more)

    @property
    def folder(self):
        return DatasetFolder(self.root, self.dataset)

    @property
    def dag_ids(self):
        """The DAG that builds, and the DAG that trains."""
        return f"build.{self.dataset}", f"train.{self.dataset}"

    def versions(self, names=NAMES):
        return {name: Version.resolve(self.folder, name) for name in names}

    def jobs(self):
        return sorted(p.parent.name for p in self.folder.path.glob("training/*/*/result.json"))

    def storage(self):
        """The connection to landing and work: on HDFS."""
        hdfs = urlsplit(os.environ["TEST_WEBHDFS_URI"])
        place = {"host": hdfs.hostname, "port": hdfs.port, "login": hdfs.username}
        folders = {name: f"{self.hdfs}/{name}" for name in self.folders}
        return {"conn_type": "webhdfs", **place, "extra": folders}

    def publication(self):
        """The connection to the publication root."""
        return {"conn_type": "generic", "extra": {"path": str(self.root)}}

    def airflow(self, *, trains=True, **options):
        """An Airflow for this ground.

        Args:
            trains: Whether the data set has a DAG that trains.
            options: Those of ``AirflowOptions``.
        """
        connections = {
            "CEPHFS_DEFAULT": self.publication(),
            "HDFS_DEFAULT": self.storage(),
            "KAFKA_DEFAULT": {"conn_type": "kafka", "extra": self.kafka},
        }
        environ = {
            "TRAINFEED_DATASETS": str(self.datasets),
            "TRAINFEED_FAULTS": ",".join(
                f"{point}:{self.action}:{self.path / 'fired'}" for point in self.faults
            ),
            **self.environ,
            **{f"AIRFLOW_CONN_{name}": json.dumps(value) for name, value in connections.items()},
        }
        chosen = AirflowOptions(**options)
        # Not below pytest's folder: PostgreSQL runs as another account, which may not pass there.
        home = Path(tempfile.mkdtemp(prefix="trainfeed-e2e-"))
        stack = AirflowStack(home, environ=environ, options=chosen)
        return Stack(stack, home, self.dag_ids if trains else self.dag_ids[:1])

    def command(self, *arguments):
        """Run the command line without Airflow; return what it printed as JSON."""
        kafka = self.kafka.get("bootstrap.servers") or f"recorded:{self.kafka['recorded']}"
        done = subprocess.run(
            [sys.executable, "-m", "trainfeed", *arguments, "--json"],
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(REPOSITORY / "include"),
                "TRAINFEED_ROOT": str(self.root),
                "TRAINFEED_LANDING": f"{os.environ['TEST_WEBHDFS_URI']}{self.hdfs}/landing",
                "TRAINFEED_WORK": f"{os.environ['TEST_WEBHDFS_URI']}{self.hdfs}/work",
                "TRAINFEED_KAFKA": kafka,
                "TRAINFEED_DATASETS": str(self.datasets),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


class LocalGround(Ground):
    """Where a way builds that needs no HDFS."""

    def storage(self):
        folders = {name: str(self.path / name) for name in ("landing", "work")}
        return {"conn_type": "file", "extra": folders}


class Stack:
    """An Airflow that runs within a ``with`` block, and what the tests ask of it."""

    def __init__(self, stack, home, dag_ids):
        self.stack = stack
        self._home = home
        self._dags = dag_ids

    def __enter__(self):
        try:
            self.stack.start()
            self.stack.wait(START_S)
            self.stack.wait_for_dags(list(self._dags), START_S)
            self.client = self.stack.client
            for train in self._dags[1:]:
                self.client.unpause(train)
        except BaseException:
            self.stack.stop()
            raise
        return self

    def __exit__(self, *error):
        self.stack.stop()
        shutil.rmtree(self._home)

    def finish(self, runs, trainings):
        """Wait for build runs and for that many training runs; return what the tasks reported."""
        builds = self.succeed(runs)
        _, train = self._dags
        until(lambda: len(self.client.dag_runs(train)) >= trainings, "the training runs")
        self.succeed(self.client.dag_runs(train))
        return [self.report(run) for run in builds]

    def succeed(self, runs):
        """Wait for runs; where one failed, say so at once and show its logs."""
        done = self.client.wait_for(runs, RUN_S)
        for run in done:
            assert run.state == "success", self.logs(run)
        return done

    def report(self, run):
        tasks = self.client.task_instances(run.dag_id, run.run_id)
        reads = [
            self.client.xcom(run, task.task_id, task.map_index)["source_reads"]
            for task in tasks
            if task.task_id == "ingest"
        ]
        return {
            **self.client.xcom(run, "publish"),
            "run_id": run.run_id,
            "source_reads": sum(reads),
            "tries": {task.task_id: task.try_number for task in tasks},
        }

    def logs(self, run):
        tasks = self.client.task_instances(run.dag_id, run.run_id)
        failed = [task for task in tasks if task.state == "failed"]
        return "\n".join(self.client.log(run.dag_id, run.run_id, task)[-3000:] for task in failed)


KEYED_CODE = "def sample(record, lookups):\n    return {'key': record.json()['key']}\n"


def keyed(key):
    """A record with a key of its own, some longer than others, for ``KEYED_CODE``."""
    return json.dumps({"key": key, "text": "x" * (key % 50)}).encode()


@contextmanager
def topic_of_keys(kafka, topic, stamped, *, partitions, end):
    """Have a topic with a record for each key in the block.

    Args:
        kafka: Settings of the broker.
        topic: Name of the topic.
        stamped: Key and time of each record; a key gives its partition.
        partitions: Number of partitions.
        end: Time of a last record of each, which belongs to no interval.
    """
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient(kafka)
    admin.create_topics([NewTopic(topic, partitions, 1, config={"retention.ms": "-1"})])[
        topic
    ].result(timeout=20)
    producer = Producer({**kafka, "enable.idempotence": True})

    def send(key, partition, at):
        stamp = int(at.timestamp() * 1000)
        producer.produce(topic, keyed(key), partition=partition, timestamp=stamp)

    for key, at in stamped:
        send(key, key % partitions, at)
    for partition in range(partitions):
        send(-1, partition, end)
    assert producer.flush(60) == 0
    yield
    admin.delete_topics([topic])[topic].result(timeout=20)


def read_keys(ground, asked):
    """The keys of all samples of a range, each with how often it is there."""
    where = {"interval": asked, "split": "train", "root": str(ground.root)}
    reader = open_dataset(ground.dataset, **where).reader()
    return Counter(int(sample["key"]) for sample in reader())


class Observer:
    """Looks at the versions all the time and verifies in full whatever it sees there."""

    def __init__(self, folder):
        self._folder = folder
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.looks = 0
        self.seen = {}
        self.violations = []

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._stop.set()
        self._thread.join()

    def _watch(self):
        while not self._stop.wait(0.05):
            self.looks += 1
            # Not in one pattern, which would look into probes of the root, and they come and go.
            for day in self._folder.path.glob("versions/[0-9]*"):
                for path in day.glob("g[0-9]*"):
                    self._look_at(path)

    def _look_at(self, path):
        try:
            version = Version.open(path)
            self.violations += version.problems()
        except (NotFoundError, OSError) as error:
            self.violations.append(error)
        else:
            digest = self.seen.setdefault(path, version.manifest_sha256)
            if digest != version.manifest_sha256:
                self.violations.append(f"{path} changed")


def until(holds, what, timeout_s=START_S):
    """Wait on a condition with a deadline."""
    waiting = threading.Event()
    for _ in range(int(timeout_s / 0.2)):
        if holds():
            return
        waiting.wait(0.2)
    raise AssertionError(f"{what} did not come within {timeout_s} s")


def most_at_once(runs):
    """The most of some ended runs that were active at once, by Airflow's own times."""
    # A run that ends at the moment at which another one begins is not active beside it.
    edges = [(run.started_at, 1) for run in runs] + [(run.ended_at, -1) for run in runs]
    active, most = 0, 0
    for _, change in sorted(edges):
        active += change
        most = max(most, active)
    return most


def contents(versions):
    """What must be equal however the days were built."""
    return {
        name: (
            version.manifest.content_digest,
            {
                shard.name: shard.sha256
                for split in version.manifest.splits.values()
                for shard in split.shards
            },
        )
        for name, version in versions.items()
    }
