"""The data set ctr in TensorFlow: what ``tf.data`` reads is what the writer of the logs counted."""

import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from examples.ctr import train_tensorflow as example
from examples.ctr.dictionary import dictionary_text
from examples.ctr.feature_numbers import FeatureNumbers
from examples.ctr.writer import DAYS, write_days
from tests.peers import made
from tests.unit.ctr.conftest import FOLDER, install
from trainfeed.core.config import Environment
from trainfeed.files.stores import Location
from trainfeed.pipeline.local import build
from trainfeed.readers import open_dataset
from trainfeed.specification import load_spec
from trainfeed.versions import init_root

REAL = made.ROOT / "data" / "obp"


@pytest.fixture(scope="module", params=["made up", "real"])
def published(request, tmp_path_factory):
    """A day of impressions as a version, and the ledger of its writer."""
    home = tmp_path_factory.mktemp("ctr")
    if request.param == "real" and not REAL.is_dir():
        pytest.skip("the data is not there: requirements/ctr.txt says how to get it")
    data = REAL if request.param == "real" else install(home / "obp")
    ledger = write_days(
        data, Location.parse(str(home / "logs/ctr")), home / "ledger.json", days=DAYS[:1]
    )
    folder = home / "datasets" / "ctr"
    folder.mkdir(parents=True)
    for file in FOLDER.iterdir():
        if file.is_file():
            (folder / file.name).write_bytes(file.read_bytes())
    (folder / "items.csv").write_text(dictionary_text(FeatureNumbers(data)))
    init_root(home / "root")
    places = {name: str(home / name) for name in ("root", "landing", "work")}
    env = Environment(**places, kafka={}, datasets=folder.parent, logs={"hdfs_default": str(home)})
    spec = load_spec(folder)
    build(spec, spec.schedule_model().interval_named(DAYS[0]), env)
    return home / "root", ledger[DAYS[0]]


def split(published, name):
    return open_dataset("ctr", interval=DAYS[0], split=name, root=published[0])


def test_counts_and_sums_are_those_of_the_ledger(published):
    """Counts and sums of indices exactly, sums of values up to the order of additions."""
    found = example.totals_of([split(published, "train"), split(published, "eval")])
    value_sum = found.pop("value_sum")
    assert found == {name: published[1][name] for name in found}
    assert value_sum == pytest.approx(published[1]["value_sum"], rel=1e-9)


def test_sparse_tensors_are_the_samples(published):
    data = split(published, "eval")
    expected = list(data.reader()())
    rows = [
        row for batch in example.batches_of(data) for row in tf.sparse.to_dense(batch["features"])
    ]
    assert len(rows) == len(expected) > 0
    for row, sample in zip(rows, expected, strict=True):
        (indices,) = np.nonzero(row.numpy())
        assert indices.tolist() == sample["indices"][sample["values"] != 0].tolist()
        np.testing.assert_array_equal(row.numpy()[sample["indices"]], sample["values"])


def test_a_shuffled_pass_has_every_sample_once_in_an_order_of_its_seed(published):
    data = split(published, "train")

    def passed(seed):
        return [
            line.tobytes()
            for batch in example.batches_of(data, seed=seed)
            for line in tf.sparse.to_dense(batch["features"]).numpy()
        ]

    kept, one, same, other = (passed(seed) for seed in (None, 1, 1, 0))
    assert sorted(kept) == sorted(one) == sorted(other)
    assert one == same
    assert len({tuple(kept), tuple(one), tuple(other)}) == 3


def test_the_training_learns_what_it_is_shown(published):
    data = split(published, "train")
    known = example.totals_of([data])
    rate = known["clicks"] / known["samples"]
    machine = example.train(data, epochs=3, seed=7, click_rate=rate)
    after = example.evaluate(machine, data, rate)
    assert after["log_loss"] < after["log_loss_base"]


def test_the_command_prints_what_it_found(published):
    done = subprocess.run(
        [sys.executable, "-m", "examples.ctr.train_tensorflow", "--interval", DAYS[0]],
        env={
            "PYTHONPATH": f"{made.ROOT}:{made.ROOT / 'include'}",
            "TRAINFEED_ROOT": str(published[0]),
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    report = json.loads(done.stdout)
    assert report["samples"] == published[1]["samples"]
    assert 0 <= report["auc"] <= 1
