"""An archive by the hour on a real HDFS and a live topic of a real broker are one data set.

Every record has a key. The live days are published first, then the archive is added in two steps,
by a backfill in which tasks are killed; in the end each key is in exactly one sample.
"""

from __future__ import annotations

import os
import uuid
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from tests.e2e.ways import KEYED_CODE, Ground, contents, keyed, read_keys, topic_of_keys
from trainfeed.files.stores import Location

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


def write_archive(logs):
    for day, at in enumerate(DAYS[:4]):
        for hour in range(HOURS):
            first = day * PER_DAY + hour * PER_HOUR
            lines = b"\n".join(map(keyed, range(first, first + PER_HOUR)))
            if day < 2:
                place, name = logs / f"daily/dt={NAMES[day]}", f"part-{hour:02}"
            else:
                place, name = logs / f"hourly/{at:%Y-%m-%d}/{hour:02}", "part-0"
                (place / "_SUCCESS").write_atomic(lambda file: file.write(b""))
            (place / name).write_atomic(lambda file, lines=lines: file.write(lines))
        if day < 2:
            marker = logs / f"daily/dt={NAMES[day]}" / "_SUCCESS"
            marker.write_atomic(lambda file: file.write(b""))


def stamped():
    """Two live days, whose last keys come late; and a day that the archive has as well."""
    for key in range(3 * PER_DAY, 6 * PER_DAY):
        if key % PER_DAY != PER_DAY - 1 or key < 4 * PER_DAY:
            yield key, FIRST + key * timedelta(days=1) / PER_DAY
    # The last record of each live day arrives when the next day has begun.
    for day in (4, 5):
        yield (day + 1) * PER_DAY - 1, FIRST + day * timedelta(days=1)


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    kafka = {"bootstrap.servers": os.environ["TEST_KAFKA_BOOTSTRAP_SERVERS"]}
    more = {"faults": KILLED, "folders": ("landing", "work", "logs")}
    path = tmp_path_factory.mktemp("rentals")
    with topic_of_keys(kafka, TOPIC, stamped(), partitions=3, end=DAYS[-1] + timedelta(days=2)):
        made = Ground.of_texts(path, "rentals", {"preprocess.py": KEYED_CODE}, kafka, **more)
        write_archive(Location.parse(f"{os.environ['TEST_WEBHDFS_URI']}{made.hdfs}/logs"))
        yield made


def specify(ground, wanted):
    start, sources = wanted
    file = ground.datasets / "rentals/dataset.yaml"
    file.write_text(SPEC.format(start=start, sources=sources))


@pytest.fixture(scope="module")
def client(ground):
    """An Airflow whose tasks die once at each of some points."""
    specify(ground, ALL)
    with ground.airflow(trains=False, preload=("numpy", "pyarrow", "pydantic")) as stack:
        yield stack.client


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
    found = read_keys(ground, f"{NAMES[0]}/{NAMES[-1]}")
    assert found == Counter(range(6 * PER_DAY))
    late = {name: each.manifest.late["late"] for name, each in ground.versions(NAMES).items()}
    assert late == {**dict.fromkeys(NAMES, 0), NAMES[4]: 0, NAMES[5]: 1}
