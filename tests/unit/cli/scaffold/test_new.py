"""A new data set builds as it is; a name that cannot be one, or is taken, changes nothing."""

from __future__ import annotations

import io
import runpy
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pyarrow as pa
import pytest
from ruamel.yaml import YAML

from trainfeed.cli.scaffold import new_dataset
from trainfeed.core.config import environment_from_environ
from trainfeed.errors import ConflictError, SpecError
from trainfeed.pipeline.functions.user_function import source_batch
from trainfeed.pipeline.local import build
from trainfeed.preprocessing import Filtered, Record, Reject
from trainfeed.sources import LANDING_SCHEMA
from trainfeed.specification import json_schema, load_spec
from trainfeed.versions import DatasetFolder, Version, init_root


@pytest.fixture
def datasets(tmp_path):
    return tmp_path / "include" / "datasets"


@pytest.fixture
def env(tmp_path, datasets, monkeypatch):
    """An environment with nothing but the data sets: no broker, no connection."""
    monkeypatch.setenv("TRAINFEED_DATA", str(tmp_path / "data"))
    made = replace(environment_from_environ(datasets=str(datasets)), kafka={})
    init_root(Path(made.root))
    return made


def build_all(env, name):
    spec = load_spec(env.datasets / name)
    intervals = spec.schedule_model().intervals()
    return [build(spec, interval, env).to_json() for interval in intervals]


def test_it_builds_at_once_without_a_broker(datasets, env):
    made = new_dataset(datasets, "clicks")
    assert made["files"] == ["dataset.yaml", "preprocess.py", "sample", "train.py"]
    reports = build_all(env, "clicks")
    assert [report["interval"] for report in reports] == ["2026-01-01", "2026-01-02", "2026-01-03"]
    assert made["interval"] == reports[0]["interval"]
    read = sum(r["samples"] + r["quarantined"] + r["filtered"] for r in reports)
    assert read == made["records"] == 600
    assert all(report["quarantined"] and report["filtered"] for report in reports)


def test_it_gives_the_same_bytes_wherever_it_is_made(tmp_path, datasets, env):
    new_dataset(datasets, "clicks")
    elsewhere = replace(
        env,
        datasets=tmp_path / "other",
        **{place: str(tmp_path / "other" / place) for place in ("root", "landing", "work")},
    )
    new_dataset(elsewhere.datasets, "clicks")
    init_root(Path(elsewhere.root))
    here, there = (build_all(place, "clicks") for place in (env, elsewhere))
    digest = [report["content_digest"] for report in here]
    assert [report["content_digest"] for report in there] == digest


def test_with_batch_the_same_samples_and_account_come_of_arrays(tmp_path, datasets, env):
    new_dataset(datasets, "clicks")
    new_dataset(tmp_path / "batch", "clicks", batch=True)
    places = {place: str(tmp_path / "batch" / place) for place in ("root", "landing", "work")}
    other = replace(env, datasets=tmp_path / "batch", **places)
    init_root(Path(other.root))
    assert load_spec(other.datasets / "clicks").preprocess.input == "batch"
    one, many = (build_all(place, "clicks") for place in (env, other))
    for key in ("content_digest", "samples", "quarantined", "filtered"):
        assert [report[key] for report in many] == [report[key] for report in one]


@pytest.mark.parametrize(
    "value",
    [
        b'{"visitor": 1, "pages": 2, "seconds": 3, "returning": true, "bought": false}',
        b'{"visitor": 1, "pages": 2, "seconds": null, "returning": true, "bought": false}',
        b'{"visitor": 1, "pages": 2, "seconds": 3, "returning": true, "bought": 1, "bot": 1}',
        (
            rb'{"visitor": 1, "pages": 2, "seconds": 3, "returning": true, "bought": true, '
            rb'"\u0062ot": 1}'
        ),
        b'{"visitor": "7", "pages": 2, "seconds": 3.5, "returning": 0, "bought": 1}',
        b"[]",
        b"{broken",
        None,
    ],
)
def test_an_unusual_record_comes_out_alike_in_both_forms(datasets, value):
    new_dataset(datasets, "clicks", batch=True)
    module = runpy.run_path(str(datasets / "clicks" / "preprocess.py"))
    record = Record(value, None, 0, (), "kafka:clicks/0", 0)
    try:
        one = module["make_sample"](record, {})
    except Reject as error:
        one = {"_rejected": error.reason, "_message": error.message}
    if isinstance(one, Filtered):
        one = {"_filtered": one.reason}
    row = {"value": value, "key": None, "timestamp": 0, "headers": [], "offset": 0}
    row |= {"timestamp_type": 1}
    landed = pa.RecordBatch.from_pylist([row], schema=LANDING_SCHEMA)
    (many,) = module["make_samples"](source_batch(landed, "kafka:clicks/0"), {}).to_pylist()
    told = {key: each for key, each in many.items() if each is not None and key != "_row"}
    for got in (told, one):
        got["features"] = np.float32(got.get("features", [])).tolist()
    assert told == one


def test_two_new_data_sets_do_not_share_a_topic(datasets, env):
    for name in ("clicks", "views"):
        new_dataset(datasets, name)
        build_all(env, name)
    sources = [
        Version.resolve(DatasetFolder(Path(env.root), name), "2026-01-01").manifest.inputs
        for name in ("clicks", "views")
    ]
    uuids = [{part["topic_uuid"] for part in inputs.values()} for inputs in sources]
    assert not uuids[0] & uuids[1]


@pytest.mark.parametrize("name", ["class", "json", "null", "true"])
def test_what_is_a_word_of_python_or_yaml_is_a_name_like_any_other(datasets, env, name):
    new_dataset(datasets, name)
    assert build_all(env, name)[0]["verdict"] == "built"


def test_every_field_of_the_file_is_explained_or_known_to_editors(datasets):
    new_dataset(datasets, "clicks")
    text = (datasets / "clicks" / "dataset.yaml").read_text()
    jsonschema.validate(YAML(typ="safe").load(io.StringIO(text)) | DATES, json_schema())
    assert text.startswith("# yaml-language-server: $schema=../dataset.schema.json\n")
    assert (datasets / "dataset.schema.json").is_file()


# YAML readers of another kind make dates of these.
DATES = {"start": "2026-01-01", "end": "2026-01-03"}


def test_in_a_checkout_editors_are_sent_to_the_committed_schema(datasets):
    docs = datasets.parents[1] / "docs"
    docs.mkdir(parents=True)
    (docs / "dataset.schema.json").touch()
    new_dataset(datasets, "clicks")
    folder = datasets / "clicks"
    reference = (folder / "dataset.yaml").read_text().splitlines()[0].partition("$schema=")[2]
    assert (folder / reference).resolve() == docs / "dataset.schema.json"
    assert sorted(path.name for path in datasets.iterdir()) == ["clicks"]


def test_the_sources_that_are_commented_out_can_be_put_in(datasets):
    new_dataset(datasets, "clicks")
    path = datasets / "clicks" / "dataset.yaml"
    lines = path.read_text().replace("  recorded: {path: ./sample}\n", "")
    path.write_text(lines.replace("  # kafka:", "  kafka:").replace("# resources:", "resources:"))
    spec = load_spec(path.parent)
    assert (spec.source.kafka[0].topic, spec.resources.pool) == ("clicks", "kafka_reads")


def test_json_that_is_no_object_goes_to_quarantine(datasets):
    new_dataset(datasets, "clicks")
    function = runpy.run_path(str(datasets / "clicks" / "preprocess.py"))["make_sample"]
    record = Record(
        value=b"[1]", key=None, timestamp_ms=0, headers=(), source="kafka:clicks/0", offset=0
    )
    with pytest.raises(Reject) as rejected:
        function(record, {})
    assert rejected.value.reason == "no_object"


@pytest.mark.parametrize("name", ["Clicks", "1st", "_a", "a-b", "a/b", "..", "", "x" * 64, "é"])
def test_what_is_no_name_is_refused(datasets, name):
    with pytest.raises(SpecError, match="expected a data set name"):
        new_dataset(datasets, name)
    assert not datasets.exists()


@pytest.mark.parametrize("name", ["self", "context"])
def test_a_reserved_name_is_refused(datasets, name):
    with pytest.raises(SpecError, match="not reserved"):
        new_dataset(datasets, name)
    assert not datasets.exists()


@pytest.mark.parametrize("kind", ["folder", "empty folder", "file", "dangling link"])
def test_a_name_that_is_taken_is_left_as_it_is(datasets, kind):
    datasets.mkdir(parents=True)
    place = datasets / "clicks"
    if kind == "file":
        place.touch()
    elif kind == "dangling link":
        place.symlink_to("nowhere")
    else:
        place.mkdir()
    if kind == "folder":
        (place / "dataset.yaml").write_text("mine")
    before = sorted(datasets.rglob("*"))
    with pytest.raises(ConflictError, match="the name is taken; nothing was changed"):
        new_dataset(datasets, "clicks")
    assert sorted(datasets.rglob("*")) == before


def test_a_folder_that_could_not_be_finished_is_not_left_behind(datasets, monkeypatch):
    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("trainfeed.cli.scaffold.folder.record_sample", fail)
    with pytest.raises(Exception, match="disk full"):
        new_dataset(datasets, "clicks")
    assert [path.name for path in datasets.iterdir() if path.is_dir()] == []
