"""Berlin days over a change of the clock, of a topic of a real broker, in a real Airflow.

The days around 27 October 2024 have 24, 25 and 24 hours. A backfill by Airflow's own dates builds
them, every record belongs to the day of its stamp, and a training over three days reads them all.
"""

from __future__ import annotations

import json
import os
import uuid
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from tests.e2e.ways import KEYED_CODE, LocalGround, read_keys, topic_of_keys, until
from trainfeed import open_dataset
from trainfeed.versions import Version

TIMEOUT_S = 600.0
TOPIC = f"orders-{uuid.uuid4().hex[:8]}"
HOUR = timedelta(hours=1)
# Start of each day in UTC, by which it is named, and its hours.
DAYS = {
    "2024-10-25T22": (datetime(2024, 10, 25, 22, tzinfo=UTC), 24),
    "2024-10-26T22": (datetime(2024, 10, 26, 22, tzinfo=UTC), 25),
    "2024-10-27T23": (datetime(2024, 10, 27, 23, tzinfo=UTC), 24),
}
FIRST, LAST = min(DAYS), max(DAYS)
PER_HOUR = 10
NUM_HOURS = sum(hours for _, hours in DAYS.values())
SPEC = f"""\
name: orders
schedule: "@daily"
tz: Europe/Berlin
start: 2024-10-26
end: 2024-10-28
source: {{kafka: {{topic: {TOPIC}, settle: 0s}}}}
preprocess: {{function: "preprocess:sample"}}
schema: {{key: {{dtype: int64}}}}
split: {{train: 1}}
train: {{entry: "train:main", window: 3, launcher: local, ranks: 1}}
"""
TRAIN = """\
def main(job):
    data = job.open("train")
    keys = sorted(int(sample["key"]) for sample in data.reader()())
    return {"samples": len(keys), "different": len(set(keys)), "last": keys[-1]}
"""

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]


def keys_of(name):
    """The keys of a day: ten for each of its hours."""
    start, hours = DAYS[name]
    first = (start - DAYS[FIRST][0]) // HOUR * PER_HOUR
    return range(first, first + hours * PER_HOUR)


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    kafka = {"bootstrap.servers": os.environ["TEST_KAFKA_BOOTSTRAP_SERVERS"]}
    path = tmp_path_factory.mktemp("zone")
    for place in ("landing", "work"):
        (path / place).mkdir()
    start = DAYS[FIRST][0]
    stamped = ((key, start + key * HOUR / PER_HOUR) for key in range(NUM_HOURS * PER_HOUR))
    files = {"dataset.yaml": SPEC, "preprocess.py": KEYED_CODE, "train.py": TRAIN}
    end = start + (NUM_HOURS + 1) * HOUR
    with topic_of_keys(kafka, TOPIC, stamped, partitions=2, end=end):
        yield LocalGround.of_texts(path, "orders", files, kafka)


@pytest.fixture(scope="module")
def client(ground):
    with ground.airflow(preload=("numpy", "pyarrow", "pydantic")) as stack:
        yield stack.client


def test_days_over_the_change_are_built_and_trained_on_as_one_window(ground, client):
    build, train = ground.dag_ids
    client.backfill(build, DAYS[FIRST][0], DAYS[LAST][0], max_active_runs=1)
    client.unpause(build)
    done = client.wait_for(client.dag_runs(build), TIMEOUT_S)
    assert {run.state for run in done} == {"success"}
    assert ground.folder.intervals() == list(DAYS)
    for name, (start, hours) in DAYS.items():
        version = Version.resolve(ground.folder, name)
        times = version.manifest.interval
        assert (times.start, times.end) == (
            f"{start:%Y-%m-%dT%H:%M:%SZ}",
            f"{start + hours * HOUR:%Y-%m-%dT%H:%M:%SZ}",
        )
        assert read_keys(ground, name) == Counter(keys_of(name))
    # The day of the zone, and the month, by what a person types.
    day = open_dataset("orders", interval="2024-10-27", split="train", root=str(ground.root))
    assert day.num_samples == 25 * PER_HOUR
    until(lambda: len(client.dag_runs(train)) == len(DAYS), "the trainings", TIMEOUT_S)
    runs = client.wait_for(client.dag_runs(train), TIMEOUT_S)
    assert sorted(run.partition_key for run in runs) == list(DAYS)
    assert {run.state for run in runs} == {"success"}
    results = {
        path.parents[1].name: json.loads(path.read_text())
        for path in ground.folder.path.glob("training/*/*/result.json")
    }
    last = results[LAST]["metrics"] if "metrics" in results[LAST] else results[LAST]
    assert last["samples"] == last["different"] == NUM_HOURS * PER_HOUR
    assert last["last"] == NUM_HOURS * PER_HOUR - 1
