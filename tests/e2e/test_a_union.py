"""A topic of a real broker and two folders of a real HDFS are one interval, in a real Airflow.

Every record has a key, the folders have files of equal names, and tasks are killed. A folder comes
when its run waits already: the run waits for that member, and is built when it is complete.
"""

from __future__ import annotations

import os
import uuid
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from tests.e2e.ways import KEYED_CODE, Ground, keyed, read_keys, topic_of_keys, until
from trainfeed.files.stores import Location

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
KILLED = ("ingest.after_batch", "preprocess.before_spill", "publish.before_rename")

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]


def keys(member, day):
    first = (MEMBERS.index(member) * len(DAYS) + day) * PER_DAY
    return range(first, first + PER_DAY)


def write_folder(logs, member, day):
    place = logs / member / NAMES[day]
    lines = b"\n".join(map(keyed, keys(member, day)))
    (place / "part-0").write_atomic(lambda file: file.write(lines))
    (place / "_SUCCESS").write_atomic(lambda file: file.write(b""))


def stamped():
    """The keys of the topic with their times, spread over each day."""
    for day, at in enumerate(DAYS):
        for number, key in enumerate(keys("live", day)):
            yield key, at + number * timedelta(days=1) / PER_DAY


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    kafka = {"bootstrap.servers": os.environ["TEST_KAFKA_BOOTSTRAP_SERVERS"]}
    files = {"dataset.yaml": SPEC, "preprocess.py": KEYED_CODE}
    more = {"faults": KILLED, "folders": ("landing", "work", "logs")}
    end = DAYS[-1] + timedelta(days=1)
    with topic_of_keys(kafka, TOPIC, stamped(), partitions=3, end=end):
        yield Ground.of_texts(tmp_path_factory.mktemp("union"), "clicks", files, kafka, **more)


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
    with ground.airflow(trains=False, preload=("numpy", "pyarrow", "pydantic")) as stack:
        yield stack.client


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
    found = read_keys(ground, f"{NAMES[0]}/{NAMES[-1]}")
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
