"""Three days of real flights in an Airflow whose root, landing and work are in a bucket.

Keys and address are in a connection of Airflow alone. Tasks are killed between the requests of a
publication. What is in the bucket is compared with what the command line makes in a folder.
"""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import dataclass

import pytest

from tests.e2e.ways import BUILD, DAYS, NAMES, LocalGround
from tests.integration.s3.conftest import VARIABLES
from tests.oracle.accounting import check
from trainfeed import open_dataset
from trainfeed.files.stores import Location
from trainfeed.versions.bucket_objects import BucketVersion
from trainfeed.versions.bucket_root import init_bucket_root
from trainfeed.versions.decision_log import DecisionLog
from trainfeed.versions.state_folder import make_state

KILLED = (
    "plan.after_save",
    "ingest.after_rename",
    "preprocess.before_spill",
    # A task has three tries.
    "bucket.after_file",
    "bucket.after_manifest",
)

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(1500),
    pytest.mark.usefixtures("account"),
    pytest.mark.skipif(
        "TEST_S3_URI" not in os.environ and os.environ.get("CI") != "true",
        reason="s3 is not configured: set TEST_S3_URI",
    ),
]


@dataclass(frozen=True)
class BucketGround(LocalGround):
    """Where a way builds into a bucket; ``root`` is the folder that follows it."""

    bucket: Location | None = None

    def publication(self):
        places = {"path": self.bucket.uri + "/root", "state": str(self.root)}
        return {"conn_type": "generic", "extra": places}

    def storage(self):
        places = {name: f"{self.bucket.uri}/{name}" for name in ("landing", "work")}
        return {"conn_type": "file", "extra": places}


@pytest.fixture
def account(monkeypatch):
    for name, variable in VARIABLES.items():
        monkeypatch.setenv(name, os.environ[variable])


@pytest.fixture
def bucket(account):
    place = Location.parse(os.environ["TEST_S3_URI"]) / "e2e" / str(uuid.uuid4())
    yield place
    place.delete(recursive=True)


def connection_of_keys():
    address, access, secret = (os.environ[variable] for variable in VARIABLES.values())
    value = {"conn_type": "aws", "login": access, "password": secret}
    return json.dumps({**value, "extra": {"endpoint_url": address}})


def test_a_backfill_into_a_bucket_with_kills_has_the_bytes_of_a_folder(
    tmp_path, recorded, bucket, monkeypatch
):
    local = LocalGround.make(tmp_path / "local", recorded.kafka)
    for name in NAMES:
        local.command("build", "flights", "--interval", name)
    made = LocalGround.make(
        tmp_path / "ground", recorded.kafka, root=tmp_path / "unused", faults=KILLED
    )
    settings = {"AIRFLOW_CONN_S3_DEFAULT": connection_of_keys()}
    settings["TRAINFEED_CACHE"] = str(tmp_path / "cache")
    ground = BucketGround(
        **{**vars(made), "root": tmp_path / "state", "environ": settings}, bucket=bucket
    )
    root = bucket / "root"
    init_bucket_root(root)
    make_state(ground.root, root, is_private=False)
    # The tasks have no keys but those of the connection.
    with monkeypatch.context() as patched:
        for name in VARIABLES:
            patched.delenv(name)
        with ground.airflow() as airflow:
            airflow.client.backfill(BUILD, DAYS[0], DAYS[-1], max_active_runs=1)
            airflow.client.unpause(BUILD)
            runs = airflow.client.wait_for(airflow.client.dag_runs(BUILD), 900)
            reports = airflow.finish(runs, trainings=3)
    assert len(list((ground.path / "fired").iterdir())) == len(KILLED)
    assert max(tries for report in reports for tries in report["tries"].values()) > 1

    for name, expected in local.versions().items():
        version = BucketVersion.at(root, "flights", name, 1)
        assert list(version.problems()) == []
        manifest, _ = version.read()
        assert manifest.content_digest == expected.manifest.content_digest
        assert manifest.file_digests() == expected.manifest.file_digests()
    announced = DecisionLog(root / "flights").newest().versions
    assert sorted(announced) == [f"{name}/g0001" for name in NAMES]
    assert sorted(ground.jobs()) != []

    # Whoever has the address and keys alone reads it.
    monkeypatch.setenv("TRAINFEED_CACHE", str(tmp_path / "cache-of-a-reader"))
    whole = f"{NAMES[0]}/{NAMES[-1]}"
    far, near = (
        open_dataset("flights", interval=whole, split="train", root=place)
        for place in (root.uri, str(local.root))
    )
    assert far.num_samples == near.num_samples
    one, other = (
        [(sample["label"], sample["values"].tobytes()) for sample in found.reader()()]
        for found in (far, near)
    )
    assert one == other
    counts = check([version.path for version in local.versions().values()], recorded.ledger)
    assert counts["lost"] == counts["doubled"] == 0
