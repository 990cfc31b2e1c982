"""The DAG ``convert`` on a real Airflow: the bytes of a local conversion, also when tasks die.

Row S17 of the features. It needs no service but Airflow itself.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.e2e.shared import FAULTS
from trainfeed.conversion import ConvertOptions, ShardManifest, convert, convert_files
from trainfeed.samples import Field, Schema

RUN_S = 300.0
SCHEMA = Schema((Field("pixels", "uint8", (784,)), Field("label", "int64"), Field("note", "str")))

pytestmark = pytest.mark.timeout(900)


def samples():
    rng = np.random.default_rng(5)
    for number in range(3000):
        pixels = rng.integers(0, 256, 784, np.uint8)
        yield {"pixels": pixels, "label": number, "note": f"é{number % 17}"}


@pytest.fixture(scope="module")
def place(shared):
    """Folder for the conversion, with a set of shards as its input."""
    folder = shared.files / "shards"
    for name in ("in", "out"):
        (folder / name).mkdir(parents=True)
    convert(folder / "in" / "raw", samples, 6, "raw", schema=SCHEMA)
    return folder


@pytest.fixture(scope="module")
def client(place, shared):
    client = shared.client_of(["convert"])
    client.unpause("convert")
    return client


def form(**changes):
    places = {"input": "shards/in/raw/raw-*", "output": "shards/out/digits"}
    base = {**places, "shards": 7, "prefix": "digits", "seed": 3}
    return {**base, "format": "recordio", "codec": "none", **changes}


def finish(client, runs):
    done = client.wait_for(runs, RUN_S)
    for run in done:
        tasks = client.task_instances(run.dag_id, run.run_id)
        failed = [task for task in tasks if task.state == "failed"]
        logs = "\n".join(client.log(run.dag_id, run.run_id, task)[-3000:] for task in failed)
        assert run.state == "success", logs
    return [client.xcom(run, "publish") for run in done]


def files(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir() if not p.name.startswith(".")}


def test_airflow_makes_the_bytes_of_a_local_conversion(client, place, shared):
    """One point of each step is armed; every one of them kills its task once."""
    changes = {"shards": 4, "format": "tfrecord", "codec": "gzip", "output": "shards/out/examples"}
    shared.arm()
    reports = finish(client, [client.trigger("convert", form())])
    assert {path.stem for path in shared.fired.iterdir()} == set(FAULTS)
    reports += finish(client, [client.trigger("convert", form(**changes))])
    # The first one's publication was killed after its commit; the next try found it done.
    assert [report["verdict"] for report in reports] == ["adopted", "published"]
    convert_files(place / "in" / "raw", place / "local", 7, "digits", seed=3)
    options = ConvertOptions(file_format="tfrecord")
    convert_files(
        place / "in" / "raw", place / "tf", 4, "digits", seed=3, codec="gzip", options=options
    )
    for made, expected in (("digits", "local"), ("examples", "tf")):
        assert files(place / "out" / made) == files(place / expected)
        manifest = ShardManifest.load(place / "out" / made, "digits")
        assert manifest.problems(place / "out" / made, deep=True) == []
        assert manifest.num_samples == 3000


def test_a_path_outside_of_the_connection_fails_without_a_retry(client, place):
    run = client.trigger("convert", form(input="/etc/hosts"))
    (done,) = client.wait_for([run], RUN_S)
    (plan,) = [t for t in client.task_instances("convert", run.run_id) if t.task_id == "plan"]
    assert (done.state, plan.state, plan.try_number) == ("failed", "failed", 1)
