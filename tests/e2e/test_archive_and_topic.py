"""An archive by the hour on a real HDFS and a live topic of a real broker are one data set.

Every record has a key. The live days are published first, then the archive is added in two steps,
by a backfill in which tasks are killed; in the end each key is in exactly one sample.
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
from tests.e2e.ways import Ground, contents
from trainfeed import open_dataset
from trainfeed.files.stores import Location
from trainfeed.versions import init_root

TIMEOUT_S = 600.0
TOPIC = f"rentals-{uuid.uuid4().hex[:8]}"
FIRST = datetime(2024, 5, 1, tzinfo=UTC)
# Two days in an old layout, two by the hour, two of the topic.
DAYS = [FIRST + timedelta(days=day) for day in range(6)]
NAMES = [f"{day:%Y-%m-%d}" for day in DAYS]
HOURS, PER_HOUR = 24, 20
PER_DAY = HOURS * PER_HOUR
SPEC = """\
name: rentals
schedule: "@daily"
start: {start}
end: 2024-05-06
{sources}
preprocess: {{function: "preprocess:sample"}}
schema: {{key: {{dtype: int64}}}}
split: {{train: 1}}
"""
CODE = "def sample(record, lookups):\n    return {'key': record.json()['key']}\n"
KAFKA = f"kafka: {{topic: {TOPIC}, settle: 0s}}"
BY_HOUR = 'logs: {path: "/hourly/{start:%Y-%m-%d}/{hour:%H}", wait: 0s}'
BY_DAY = 'logs: {path: "/daily/dt={start:%Y-%m-%d}", wait: 0s, land: true}'
LIVE = (NAMES[4], f"source: {{{KAFKA}}}")
ARCHIVE = (NAMES[2], f"sources: [{{{BY_HOUR}, until: {NAMES[4]}}}, {{{KAFKA}}}]")
ALL = (
    NAMES[0],
    f"sources: [{{{BY_DAY}, until: {NAMES[2]}}}, {ARCHIVE[1].removeprefix('sources: [')}",
)
KILLED = ("ingest.after_batch", "preprocess.before_spill", "publish.before_rename")

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]


def record(key):
    return json.dumps({"key": key, "text": "x" * (key % 50)}).encode()


def write_archive(logs):
    for day, at in enumerate(DAYS[:4]):
        for hour in range(HOURS):
            first = day * PER_DAY + hour * PER_HOUR
            lines = b"\n".join(map(record, range(first, first + PER_HOUR)))
            if day < 2:
                place, name = logs / f"daily/dt={NAMES[day]}", f"part-{hour:02}"
            else:
                place, name = logs / f"hourly/{at:%Y-%m-%d}/{hour:02}", "part-0"
                (place / "_SUCCESS").write_atomic(lambda file: file.write(b""))
            (place / name).write_atomic(lambda file, lines=lines: file.write(lines))
        if day < 2:
            marker = logs / f"daily/dt={NAMES[day]}" / "_SUCCESS"
            marker.write_atomic(lambda file: file.write(b""))


def write_topic(servers):
    """Two live days, whose last keys come late; and a day that the archive has as well."""
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})

    def send(key, at):
        stamp = int(at.timestamp() * 1000)
        producer.produce(TOPIC, record(key), partition=key % 3, timestamp=stamp)

    step = timedelta(days=1) / PER_DAY
    for key in range(3 * PER_DAY, 6 * PER_DAY):
        if key % PER_DAY != PER_DAY - 1 or key < 4 * PER_DAY:
            send(key, FIRST + key * step)
    # The last record of each live day arrives when the next day has begun.
    for day in (4, 5):
        send((day + 1) * PER_DAY - 1, FIRST + day * timedelta(days=1))
    end = DAYS[-1] + timedelta(days=2)
    for partition in range(3):
        producer.produce(
            TOPIC, record(-1), partition=partition, timestamp=int(end.timestamp() * 1000)
        )
    assert producer.flush(60) == 0


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    servers = os.environ["TEST_KAFKA_BOOTSTRAP_SERVERS"]
    path = tmp_path_factory.mktemp("rentals")
    (path / "datasets/rentals").mkdir(parents=True)
    (path / "datasets/rentals/preprocess.py").write_text(CODE)
    (path / "fired").mkdir()
    init_root(path / "root")
    made = Ground(path, path / "root", path / "datasets", {"bootstrap.servers": servers})
    made = replace(made, dataset="rentals")
    admin = AdminClient({"bootstrap.servers": servers})
    topic = NewTopic(TOPIC, 3, 1, config={"retention.ms": "-1"})
    admin.create_topics([topic])[TOPIC].result(timeout=20)
    write_archive(Location.parse(f"{os.environ['TEST_WEBHDFS_URI']}{made.hdfs}/logs"))
    write_topic(servers)
    yield made
    admin.delete_topics([TOPIC])[TOPIC].result(timeout=20)


def specify(ground, wanted):
    start, sources = wanted
    file = ground.datasets / "rentals/dataset.yaml"
    file.write_text(SPEC.format(start=start, sources=sources))


@pytest.fixture(scope="module")
def client(ground):
    """An Airflow whose tasks die once at each of some points."""
    specify(ground, ALL)
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
        airflow.wait_for_dags(["build.rentals"], TIMEOUT_S)
        yield airflow.client


def test_live_days_stay_as_they_are_while_an_archive_grows_in_front_of_them(ground, request):
    specify(ground, LIVE)
    for name in NAMES[4:]:
        assert ground.command("build", "rentals", "--interval", name)["verdict"] == "built"
    before = contents(ground.versions(NAMES[4:]))
    fingerprints = [each.manifest.fingerprint for each in ground.versions(NAMES[4:]).values()]
    specify(ground, ARCHIVE)
    for name in NAMES[4:]:
        assert ground.command("build", "rentals", "--interval", name)["verdict"] == "identical"
    client = request.getfixturevalue("client")
    client.backfill("build.rentals", DAYS[0], DAYS[-1], max_active_runs=2)
    client.unpause("build.rentals")
    done = client.wait_for(client.dag_runs("build.rentals"), TIMEOUT_S)
    assert [run.state for run in done] == ["success"] * len(DAYS)
    assert sorted(each.name for each in (ground.path / "fired").iterdir()) != []
    after = ground.versions(NAMES[4:])
    assert contents(after) == before
    assert [each.manifest.fingerprint for each in after.values()] == fingerprints
    asked = {"interval": f"{NAMES[0]}/{NAMES[-1]}", "split": "train", "root": str(ground.root)}
    found = Counter(int(sample["key"]) for sample in open_dataset("rentals", **asked).reader()())
    assert found == Counter(range(6 * PER_DAY))
    late = {name: each.manifest.late["late"] for name, each in ground.versions(NAMES).items()}
    assert late == {**dict.fromkeys(NAMES, 0), NAMES[4]: 0, NAMES[5]: 1}
