"""The DAG ``convert`` on a real Airflow: the bytes of a local conversion, also when tasks die.

Row S17 of the features. It needs no service but Airflow itself.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest

from services.airflow import AirflowOptions, AirflowStack
from trainfeed.conversion import ConvertOptions, ShardManifest, convert, convert_files
from trainfeed.samples import Field, Schema

RUN_S = 300.0
SCHEMA = Schema((Field("pixels", "uint8", (784,)), Field("label", "int64"), Field("note", "str")))
# One point of each step; every one of them kills its task once.
KILLED = ("convert.before_spill", "convert.after_shard", "convert.after_commit")

pytestmark = pytest.mark.timeout(900)


def samples():
    rng = np.random.default_rng(5)
    for number in range(3000):
        pixels = rng.integers(0, 256, 784, np.uint8)
        yield {"pixels": pixels, "label": number, "note": f"é{number % 17}"}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Folders for the conversion, with a set of shards as its input."""
    folder = tmp_path_factory.mktemp("convert")
    for name in ("in", "out", "work", "fired"):
        (folder / name).mkdir()
    convert(folder / "in" / "raw", samples, 6, "raw", schema=SCHEMA)
    return folder


@pytest.fixture(scope="module")
def client(place):
    """The client of an Airflow whose tasks die at each of the points, once."""
    extra = {
        "inputs": [str(place / "in")],
        "outputs": [str(place / "out")],
        "work": str(place / "work"),
    }
    environ = {
        "AIRFLOW_CONN_CONVERT_DEFAULT": json.dumps({"conn_type": "generic", "extra": extra}),
        "TRAINFEED_FAULTS": ",".join(f"{point}:kill:{place / 'fired'}" for point in KILLED),
    }
    # Not below pytest's folder: PostgreSQL runs as another account, which may not pass there.
    home = Path(tempfile.mkdtemp(prefix="trainfeed-e2e-"))
    stack = AirflowStack(home, environ=environ, options=AirflowOptions())
    try:
        stack.start()
        stack.wait()
        stack.wait_for_dags(["convert"])
        stack.client.unpause("convert")
        yield stack.client
    finally:
        stack.stop()
        shutil.rmtree(home)


def form(**changes):
    base = {"input": "raw/raw-*", "output": "digits", "shards": 7, "prefix": "digits", "seed": 3}
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


def test_airflow_makes_the_bytes_of_a_local_conversion(client, place):
    changes = {"shards": 4, "format": "tfrecord", "codec": "gzip", "output": "examples"}
    reports = finish(client, [client.trigger("convert", form())])
    assert {path.stem for path in (place / "fired").iterdir()} == set(KILLED)
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
