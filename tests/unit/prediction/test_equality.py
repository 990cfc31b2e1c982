"""Predictions are those of the training: on the evaluation split, and on the records themselves."""

import importlib.util
import json
import shutil
import sys
from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from examples.digits.images import read_digits
from examples.digits.writer import write_days
from examples.flights.events import read_events, select_days
from examples.flights.lookups import write_lookups
from examples.flights.recording import record
from tests.unit.digits.conftest import data as digits_data
from tests.unit.flights.conftest import data as flights_data
from tests.unit.prediction.conftest import LIMITS
from trainfeed.core.config import Environment, KafkaSettings
from trainfeed.files.stores import Location
from trainfeed.pipeline.local import build
from trainfeed.prediction import (
    ModelPlace,
    ModelWorker,
    RawRecord,
    predict_records,
    predict_split,
)
from trainfeed.preprocessing import Record
from trainfeed.readers import DatasetReader
from trainfeed.specification import load_spec
from trainfeed.training.launch import train
from trainfeed.training.models import ModelsFolder
from trainfeed.training.promotion import evaluate, promote
from trainfeed.versions import DatasetFolder, Version, init_root

__all__ = ["digits_data", "flights_data"]

ROOT = Path(__file__).parents[3]


@dataclass
class Trained:
    """A promoted model of one interval, the metrics of its training, and the raw records."""

    env: Environment
    name: str
    version: Version
    metrics: dict[str, float]
    values: list[bytes]

    @classmethod
    def make(cls, env, name, day, values, edits=()):
        folder = env.datasets / name
        path = folder / "dataset.yaml"
        text = path.read_text()
        for old, new in (("window: 3", "window: 1"), ("window: 5", "window: 1"), *edits):
            text = text.replace(old, new)
        path.write_text(text)
        spec = load_spec(folder)
        interval = spec.schedule_model().interval_named(day)
        build(spec, interval, env)
        report = train(spec, env, interval)
        judged = evaluate(spec, env, interval.name, report["job"])
        promote(spec, env, judged["version"], "why", request="test")
        found = Version.resolve(DatasetFolder(Path(env.root), name), day, None)
        return cls(env, name, found, report["metrics"], values)

    def split(self, name):
        """Predictions of a split, and its columns, in the order of its samples."""
        place = ModelPlace(self.env.root, str(self.env.datasets), self.name, 1)
        with ModelWorker(place, LIMITS, self.version.path) as worker:
            batches = list(predict_split(worker, self.version, name, 4096))
        rows = [each.predictions[0] for batch in batches for each in batch]
        blocks = list(DatasetReader([self.version], name).iter_arrays())
        return rows, {
            field: np.concatenate([each[field] for each in blocks]) for field in blocks[0]
        }

    def raw(self, values):
        place = ModelPlace(Path(self.env.root), self.env.datasets, self.name, 1)
        with ModelWorker(place, LIMITS) as worker:
            batches = predict_records(worker, map(RawRecord, values), 100)
            return [outcome for batch in batches for outcome in batch]

    def module(self, module):
        package = f"{self.name}_of_equality"
        made = importlib.util.module_from_spec(importlib.util.spec_from_loader(package, None))
        made.__path__ = [str(self.env.datasets / self.name)]
        sys.modules[package] = made
        return importlib.import_module(f"{package}.{module}")


def environment(tmp_path, name, **more):
    places = {each: str(tmp_path / each) for each in ("root", "landing", "work")}
    copied = shutil.ignore_patterns("__pycache__", "*.parquet")
    shutil.copytree(ROOT / "include/datasets" / name, tmp_path / "datasets" / name, ignore=copied)
    init_root(tmp_path / "root")
    return Environment(**places, datasets=tmp_path / "datasets", **more)


def published_chances(trained):
    """Features of every published sample of the flights → chances."""
    found = defaultdict(list)
    for split in ("train", "eval"):
        rows, columns = trained.split(split)
        for row, *features in zip(rows, columns["indices"], columns["values"], strict=True):
            found[key(*features)].append(row["chance"])
    return found


def raw_chances(trained, pairs):
    """The same of records, whose features the function of the data set makes once more."""
    make, folder = trained.module("preprocess").flights, trained.env.datasets / "flights"
    lookups = {name: pq.read_table(folder / f"{name}.parquet") for name in ("weather", "planes")}
    found = defaultdict(list)
    for value, outcome in pairs:
        if outcome.is_predicted:
            sample = make(Record(value, None, 0, (), "test", 0), lookups)
            (row,) = outcome.predictions
            found[key(sample["indices"], sample["values"])].append(row["chance"])
    return found


def key(indices, values):
    return indices.tobytes() + values.tobytes()


def assert_each_has_the_chance_of_its_sample(raw, published):
    """Samples of equal features have one chance; sums of a batch may end apart."""
    assert len(published) > 200
    assert {each: len(chances) for each, chances in raw.items()} == {
        each: len(chances) for each, chances in published.items()
    }
    for each, chances in raw.items():
        np.testing.assert_allclose(sorted(chances), sorted(published[each]), rtol=1e-13)


def assert_the_same_but_for_the_end_of_sums(one, other):
    """Products of matrices may be summed up in another order, by where the memory of a batch is."""
    (mine,), (theirs,) = one.predictions, other.predictions
    np.testing.assert_allclose(mine["chance"], theirs["chance"], rtol=1e-13)
    assert replace(one, predictions=({**mine, "chance": theirs["chance"]},)) == other


def test_digits_are_predicted_as_the_training_has_evaluated(tmp_path, digits_data):
    logs = Location.parse(str(tmp_path / "logs" / "digits"))
    write_days(read_digits(digits_data), logs, tmp_path / "ledger.sqlite")
    env = environment(tmp_path, "digits", kafka={}, logs={"hdfs_default": str(tmp_path)})
    lines = (tmp_path / "logs/digits/dt=2024-01-02/part-00000.txt").read_bytes().splitlines()
    edits = [("min: 0.8, ", "min: 0.1, ")]
    trained = Trained.make(env, "digits", "2024-01-02", lines, edits)
    rows, columns = trained.split("eval")
    digits = np.array([row["digit"] for row in rows])
    assert float((digits == columns["label"]).mean()) == trained.metrics["accuracy"]
    sound = [line for line in lines if line.count(b"\t") == 1]
    without = trained.raw([line.partition(b"\t")[0] for line in sound])
    with_labels = trained.raw(sound)
    assert sum(outcome.is_predicted for outcome in with_labels) > 20
    for blind, seen in zip(without, with_labels, strict=True):
        if seen.is_predicted:
            assert_the_same_but_for_the_end_of_sums(blind, seen)
    assert ModelsFolder(Path(env.root)).names() == ["digits"]


@pytest.mark.ci
def test_flights_are_predicted_as_the_training_has_evaluated(tmp_path, flights_data):
    env = environment(
        tmp_path, "flights", kafka={"kafka_default": KafkaSettings(recorded=str(tmp_path / "log"))}
    )
    write_lookups(flights_data, env.datasets / "flights")
    events = select_days(read_events(flights_data), date(2013, 1, 2), date(2013, 1, 2), following=9)
    record(events, tmp_path / "log" / "flights", topic="flights")
    lines = events["value"].to_pylist()
    edits = [("{min: 0.5}", "{min: 0.0}"), ("max: 1.0", "max: 99.0")]
    edits += [("{check: count, min: 50,", "{check: count, min: 1,"), ("max: 0.01", "max: 0.5")]
    trained = Trained.make(env, "flights", "2013-01-02", lines, edits)
    rows, columns = trained.split("eval")
    chances, labels = np.array([row["chance"] for row in rows]), columns["label"]
    module = trained.module("train")
    assert module.log_loss(labels, chances) == trained.metrics["log_loss"]
    assert module.auc(labels, chances) == trained.metrics["auc"]
    raw = trained.raw(lines)
    kinds = {outcome.kind.value for outcome in raw}
    assert {"predicted", "filtered"} <= kinds
    stamps = events["timestamp_ms"].to_numpy()
    triples = zip(lines, raw, stamps, strict=True)
    of_day = [(line, o) for line, o, stamp in triples if date_of(stamp) == "2013-01-02"]
    assert_each_has_the_chance_of_its_sample(
        raw_chances(trained, of_day), published_chances(trained)
    )
    # A departure that is still to come: neither its time nor its delay is known.
    known = [(number, json.loads(lines[number])) for number, o in enumerate(raw) if o.is_predicted]
    ahead = [
        json.dumps({k: v for k, v in event.items() if k not in {"dep_time", "arr_delay"}}).encode()
        for _, event in known
    ]
    found = trained.raw(ahead)
    for (number, _), outcome in zip(known, found, strict=True):
        (one,), (other,) = outcome.predictions, raw[number].predictions
        assert one["chance"] == pytest.approx(other["chance"], rel=1e-13)


def date_of(stamp_ms):
    return str(np.datetime64(int(stamp_ms), "ms"))[:10]
