"""A topic of a real broker and two folders of a real HDFS are one interval, in a real Airflow.

Every record has a key, the folders have files of equal names, and tasks are killed. A folder comes
when its run waits already: the run waits for that member, and is built when it is complete.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import uuid
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from services.airflow import AirflowOptions, AirflowStack
from tests.e2e.ways import Ground, until
from trainfeed import open_dataset
from trainfeed.files.stores import Location
from trainfeed.versions import init_root

TIMEOUT_S = 600.0
TOPIC = f"clicks-{uuid.uuid4().hex[:8]}"
# The last day has ended, whenever the test runs.
LAST = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)
DAYS = [LAST - timedelta(days=1), LAST]
NAMES = [f"{day:%Y-%m-%d}" for day in DAYS]
MEMBERS = ("live", "partner", "shop")
PER_DAY = 300
SPEC = f"""\
name: clicks
schedule: "@daily"
start: {NAMES[0]}
end: {NAMES[-1]}
catchup: true
source:
  union:
    live: {{kafka: {{topic: {TOPIC}, settle: 0s}}}}
    partner: {{logs: {{path: "/partner/{{start:%Y-%m-%d}}", wait: 30d}}}}
    shop: {{logs: {{path: "/shop/{{start:%Y-%m-%d}}", land: true, wait: 0s}}}}
preprocess: {{function: "preprocess:sample"}}
schema: {{key: {{dtype: int64}}}}
split: {{train: 1}}
resources: {{records_per_task: 100}}
"""
CODE = "def sample(record, lookups):\n    return {'key': record.json()['key']}\n"
KILLED = ("ingest.after_batch", "preprocess.before_spill", "publish.before_rename")

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]


def keys(member, day):
    first = (MEMBERS.index(member) * len(DAYS) + day) * PER_DAY
    return range(first, first + PER_DAY)


def record(key):
    return json.dumps({"key": key, "text": "x" * (key % 50)}).encode()


def write_folder(logs, member, day):
    place = logs / member / NAMES[day]
    lines = b"\n".join(map(record, keys(member, day)))
    (place / "part-0").write_atomic(lambda file: file.write(lines))
    (place / "_SUCCESS").write_atomic(lambda file: file.write(b""))


def write_topic(servers):
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for day, at in enumerate(DAYS):
        for number, key in enumerate(keys("live", day)):
            stamp = int((at + number * timedelta(days=1) / PER_DAY).timestamp() * 1000)
            producer.produce(TOPIC, record(key), partition=key % 3, timestamp=stamp)
    end = int((DAYS[-1] + timedelta(days=1)).timestamp() * 1000)
    for partition in range(3):
        producer.produce(TOPIC, record(-1), partition=partition, timestamp=end)
    assert producer.flush(60) == 0


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    servers = os.environ["TEST_KAFKA_BOOTSTRAP_SERVERS"]
    path = tmp_path_factory.mktemp("union")
    (path / "datasets/clicks").mkdir(parents=True)
    (path / "datasets/clicks/preprocess.py").write_text(CODE)
    (path / "datasets/clicks/dataset.yaml").write_text(SPEC)
    (path / "fired").mkdir()
    init_root(path / "root")
    made = Ground(path, path / "root", path / "datasets", {"bootstrap.servers": servers})
    made = replace(made, dataset="clicks")
    admin = AdminClient({"bootstrap.servers": servers})
    topic = NewTopic(TOPIC, 3, 1, config={"retention.ms": "-1"})
    admin.create_topics([topic])[TOPIC].result(timeout=20)
    write_topic(servers)
    yield made
    admin.delete_topics([TOPIC])[TOPIC].result(timeout=20)


@pytest.fixture(scope="module")
def logs(ground):
    """The store, without the last day of the partner."""
    place = Location.parse(f"{os.environ['TEST_WEBHDFS_URI']}{ground.hdfs}/logs")
    for day in range(len(DAYS)):
        write_folder(place, "shop", day)
    write_folder(place, "partner", 0)
    return place


@pytest.fixture(scope="module")
def client(ground, logs):
    """An Airflow whose tasks die once at each of some points."""
    storage = ground.storage()
    storage["extra"] |= {"logs": f"{ground.hdfs}/logs"}
    connections = {
        "CEPHFS_DEFAULT": {"conn_type": "generic", "extra": {"path": str(ground.root)}},
        "HDFS_DEFAULT": storage,
        "KAFKA_DEFAULT": {"conn_type": "kafka", "extra": ground.kafka},
    }
    environ = {
        "TRAINFEED_DATASETS": str(ground.datasets),
        "TRAINFEED_FAULTS": ",".join(f"{point}:kill:{ground.path / 'fired'}" for point in KILLED),
        **{f"AIRFLOW_CONN_{name}": json.dumps(value) for name, value in connections.items()},
    }
    # Not below pytest's folder: PostgreSQL runs as another account, which may not pass there.
    home = Path(tempfile.mkdtemp(prefix="trainfeed-e2e-"))
    options = AirflowOptions(preload=("numpy", "pyarrow", "pydantic"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, home, ignore_errors=True)
        airflow = AirflowStack(home, environ=environ, options=options)
        stack.callback(airflow.stop)
        airflow.start()
        airflow.wait(TIMEOUT_S)
        airflow.wait_for_dags(["build.clicks"], TIMEOUT_S)
        yield airflow.client


def test_a_topic_and_two_folders_are_one_interval_each_key_once(ground, client, logs):
    client.unpause("build.clicks")
    until(lambda: ground.folder.intervals() == NAMES[:1], "the first day", TIMEOUT_S)
    # The other run waits for the partner, by the task that waits for folders.
    waiting = {f"{run.data_interval[0]:%Y-%m-%d}": run for run in client.dag_runs("build.clicks")}
    until(
        lambda: any(
            task.task_id == "wait_for_logs" and task.state in {"deferred", "up_for_reschedule"}
            for task in client.task_instances("build.clicks", waiting[NAMES[1]].run_id)
        ),
        "the wait for the partner",
        TIMEOUT_S,
    )
    write_folder(logs, "partner", 1)
    done = client.wait_for(client.dag_runs("build.clicks"), TIMEOUT_S)
    assert {run.state for run in done} == {"success"}
    assert sorted(each.name for each in (ground.path / "fired").iterdir()) != []
    asked = {"interval": f"{NAMES[0]}/{NAMES[-1]}", "split": "train", "root": str(ground.root)}
    found = Counter(int(sample["key"]) for sample in open_dataset("clicks", **asked).reader()())
    assert found == Counter(range(len(MEMBERS) * len(DAYS) * PER_DAY))
    for name, version in ground.versions(NAMES).items():
        sources = version.manifest.sources
        assert Counter(source.partition("/")[0] for source in sources) == {
            "live": 3,
            "partner": 1,
            "shop": 1,
        }
        assert [source for source in sources if source.endswith("part-0")] == [
            f"partner/logs:{name}/part-0",
            f"shop/logs:{name}/part-0",
        ]
        assert list(version.problems()) == []
