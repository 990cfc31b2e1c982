from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from trainfeed.errors import ConfigError, SpecError
from trainfeed.specification import (
    CountCheck,
    DatasetSpec,
    FieldSpec,
    KafkaSourceSpec,
    RangeCheck,
    RecordedSourceSpec,
    load_spec,
    load_specs,
)

Change = Callable[[str, str], DatasetSpec]

SMALLEST = """\
name: clicks
schedule: "*/10 * * * *"
start: 2013-01-01T05:10:00Z
source: {kafka: {topic: clicks}}
preprocess: {function: "preprocess:clicks"}
schema: {label: {dtype: int64}}
"""


def test_a_function_file_that_went_is_missed_though_its_spec_was_read_before(folder: Path) -> None:
    load_spec(folder)
    (folder / "preprocess.py").unlink()
    with pytest.raises(SpecError, match="preprocess"):
        load_spec(folder)


def test_every_field_of_the_file_is_in_the_specification(folder: Path) -> None:
    spec = load_spec(folder)
    assert (spec.name, spec.schedule, spec.seed, spec.catchup) == ("clicks", "@daily", 7, False)
    assert (spec.start, spec.end) == (
        datetime(2013, 1, 1, tzinfo=UTC),
        datetime(2013, 12, 31, tzinfo=UTC),
    )
    assert spec.source.kafka == (
        KafkaSourceSpec(topic="clicks", settle=timedelta(minutes=30), late="keep"),
    )
    assert (spec.preprocess.module, spec.preprocess.function_name) == ("preprocess", "clicks")
    assert spec.lookups == {"pages": "pages.parquet", "users": "tables/users.parquet"}
    assert list(spec.fields) == ["indices", "history", "label", "price", "note"]
    assert spec.fields["history"] == FieldSpec(dtype="float32", shape=(None, 4))
    assert spec.split.millionths == {"eval": 100_000, "train": 900_000}
    assert list(spec.split.millionths) == ["eval", "train"]
    assert (spec.output.codec, spec.output.level, spec.output.chunk_bytes) == ("zstd", 1, 1 << 20)
    assert spec.quality[1] == CountCheck(check="count", min=1)
    assert spec.quality[3] == RangeCheck(check="range", field="label", min=0, max=1)
    assert spec.train is not None
    assert (spec.train.module, spec.train.function_name, spec.train.min) == ("train", "main", 0.6)
    assert (spec.retention.keep_generations, spec.retention.keep_days) == (3, 400)
    assert (spec.resources.pool, spec.resources.max_active_runs) == ("kafka_reads", 4)
    assert spec.folder == folder


def test_the_smallest_file_has_the_documented_defaults(folder: Path) -> None:
    (folder / "dataset.yaml").write_text(SMALLEST)
    spec = load_spec(folder)
    (topic,) = spec.source.kafka
    assert (spec.description, spec.end, spec.catchup, spec.seed) == ("", None, False, 0)
    assert (topic.connection, topic.settle, topic.late, topic.skew) == (
        "kafka_default",
        timedelta(minutes=10),
        "keep",
        timedelta(days=1),
    )
    assert (spec.preprocess.input, spec.preprocess.engine, spec.lookups) == ("record", "local", {})
    assert (spec.split.millionths, spec.split.by) == ({"train": 1_000_000}, None)
    assert spec.output.model_dump() == {
        "format": "recordio",
        "codec": "zstd",
        "level": 1,
        "chunk_bytes": 1 << 20,
        "shards": None,
        "samples_per_shard": 100_000,
        "positions": True,
    }
    assert (spec.quality, spec.train) == ((), None)
    assert (spec.retention.keep_generations, spec.retention.keep_days) == (3, None)
    assert spec.resources.model_dump() == {
        "pool": None,
        "max_active_runs": 4,
        "records_per_task": 100_000,
        "memory_bytes": 512 << 20,
        "processes": 1,
        "worker_memory_bytes": 4 << 30,
        "time_limit": timedelta(hours=1),
    }


def test_tfrecord_is_one_word_and_never_compressed(changed: Change) -> None:
    output = changed("format: recordio, codec: zstd, level: 1", "format: tfrecord").output
    assert (output.format, output.codec, output.level) == ("tfrecord", "none", None)
    same = changed("recordio, codec: zstd, level: 1", "tfrecord, codec: none").output
    assert same == output


def test_training_has_defaults_too(changed: Change) -> None:
    train = changed(", window: 3, launcher: local, ranks: 2, metric: auc, min: 0.6", "").train
    assert train is not None
    assert (train.window, train.launcher, train.ranks) == (1, "local", 1)
    assert (train.metric, train.min, train.wait) == (None, None, timedelta(days=1))


def test_the_schedule_has_the_ticks_of_the_file(folder: Path) -> None:
    schedule = load_spec(folder).schedule_model()
    assert (schedule.cron, schedule.interval_named("2013-12-31").name) == (
        "0 0 * * *",
        "2013-12-31",
    )


def test_a_source_may_be_several_topics(changed: Change) -> None:
    spec = changed(
        "kafka: {connection: kafka_default, topic: clicks, settle: 30m, late: keep}",
        "kafka: [{topic: clicks, settle: 2h}, {topic: orders, connection: other}]",
    )
    assert [topic.topic for topic in spec.source.kafka] == ["clicks", "orders"]
    assert spec.source.kind.topics == spec.source.kafka
    assert spec.source.kind.settle == timedelta(hours=2)


def test_a_source_may_be_a_recorded_topic(changed: Change) -> None:
    spec = changed(
        "kafka: {connection: kafka_default, topic: clicks, settle: 30m, late: keep}",
        'recorded: {path: "data/recorded/clicks", late: separate}',
    )
    assert spec.source.kafka == ()
    assert spec.source.kind.topics == (
        RecordedSourceSpec(path="data/recorded/clicks", late="separate"),
    )
    assert spec.source.kind.settle == timedelta(0)


@pytest.mark.parametrize(
    ("text", "duration"),
    [("0s", timedelta(0)), ("45s", timedelta(seconds=45)), ("1d", timedelta(days=1))],
)
def test_durations_have_a_unit(changed: Change, text: str, duration: timedelta) -> None:
    assert changed("settle: 30m", f"settle: {text}").source.kind.settle == duration


@pytest.mark.parametrize(
    ("text", "size_bytes"), [("4096", 4096), ("512B", 512), ("64KiB", 65536), ("32MiB", 32 << 20)]
)
def test_sizes_are_bytes_or_have_a_unit(changed: Change, text: str, size_bytes: int) -> None:
    assert changed("chunk_bytes: 1MiB", f"chunk_bytes: {text}").output.chunk_bytes == size_bytes


@pytest.mark.parametrize(
    "shares",
    ["train: 0.90, eval: .1", "train: 9e-1, eval: 0.1", "train: 0.899999, eval: 0.000001, x: 0.1"],
)
def test_shares_are_exact_millionths(changed: Change, shares: str) -> None:
    millionths = changed("train: 0.9, eval: 0.1", shares).split.millionths
    assert sum(millionths.values()) == 1_000_000
    assert millionths["train"] in {900_000, 899_999}


def test_a_single_split_has_everything(changed: Change) -> None:
    assert changed("train: 0.9, eval: 0.1", "all: 1").split.millionths == {"all": 1_000_000}


def test_records_can_be_kept_together_by_fields(changed: Change) -> None:
    assert changed("by: record", "by: [label, note]").split.by == ("label", "note")


@pytest.mark.parametrize(
    ("codec", "level"), [("none", None), ("snappy", None), ("lz4", None), ("gzip", 6), ("zstd", 1)]
)
def test_a_codec_brings_its_level(changed: Change, codec: str, level: int | None) -> None:
    assert changed("codec: zstd, level: 1", f"codec: {codec}").output.level == level


def test_shards_replace_samples_per_shard(changed: Change) -> None:
    output = changed("samples_per_shard: 1000", "shards: 4").output
    assert (output.shards, output.samples_per_shard) == (4, None)


def test_yes_and_no_are_texts_and_quotes_make_texts(changed: Change) -> None:
    assert changed("Clicks, and whether something was bought", "no").description == "no"
    assert changed("Clicks, and whether something was bought", '"7"').description == "7"


def test_a_specification_never_changes(folder: Path) -> None:
    spec = load_spec(folder)
    with pytest.raises(ValidationError, match="frozen"):
        spec.seed = 8  # type: ignore[misc]
    assert load_spec(folder) == spec


def test_a_specification_crosses_process_boundaries(folder: Path) -> None:
    spec = load_spec(folder)
    copy = pickle.loads(pickle.dumps(spec))
    assert (copy, copy.folder) == (spec, spec.folder)


def test_all_specifications_load_in_order_and_a_wrong_one_is_its_error(folder: Path) -> None:
    good = (folder / "dataset.yaml").read_text()
    datasets = folder.parent
    for name, text in {
        "b_wrong": good,
        "a_fine": good.replace("name: clicks", "name: a_fine"),
    }.items():
        (datasets / name).mkdir()
        (datasets / name / "dataset.yaml").write_text(text)
        (datasets / name / "preprocess.py").touch()
        (datasets / name / "train.py").touch()
    (datasets / "d_empty").mkdir()
    (datasets / "__pycache__").mkdir()
    (datasets / ".git").mkdir()
    (datasets / "README.md").touch()
    a_fine, b_wrong, clicks, d_empty = load_specs(datasets)
    assert isinstance(a_fine, DatasetSpec)
    assert isinstance(clicks, DatasetSpec)
    assert (a_fine.name, clicks.name) == ("a_fine", "clicks")
    assert isinstance(b_wrong, SpecError)
    assert "expected the name of its folder, 'b_wrong', got 'clicks'" in str(b_wrong)
    assert isinstance(d_empty, SpecError)
    assert str(datasets / "d_empty" / "dataset.yaml") in str(d_empty)


def test_a_folder_of_data_sets_that_is_not_there_names_the_setting(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"got '.*/nowhere' .*; set TRAINFEED_DATASETS"):
        load_specs(tmp_path / "nowhere")


def test_a_folder_may_be_given_by_a_relative_path(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert load_spec(Path()).folder == folder


def test_an_unreadable_file_says_why(folder: Path) -> None:
    (folder / "dataset.yaml").unlink()
    (folder / "dataset.yaml").mkdir()
    with pytest.raises(SpecError, match=r"dataset\.yaml:1: expected a plain file, got a folder"):
        load_spec(folder)


def test_loading_imports_nothing_heavy(folder: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from trainfeed.specification import load_spec;"
        f"load_spec(Path({str(folder)!r}));"
        "heavy = {'numpy', 'pyarrow', 'pandas', 'confluent_kafka', 'hdfs', 'airflow'};"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "[]"


def test_a_data_set_that_is_not_there_gets_the_nearest_name(folder: Path) -> None:
    with pytest.raises(SpecError, match=r"got no such file; did you mean 'clicks'\?"):
        load_spec(folder.parent / "click")
    with pytest.raises(SpecError, match="got no such file; make the folder first"):
        load_spec(folder / "deeper" / "clicks")
    (folder / "dataset.yaml").unlink()
    with pytest.raises(SpecError, match="got no such file; add it, or move the folder elsewhere"):
        load_spec(folder)


def test_a_byte_order_mark_does_no_harm(folder: Path) -> None:
    text = (folder / "dataset.yaml").read_text()
    (folder / "dataset.yaml").write_text(text, encoding="utf-8-sig")
    assert load_spec(folder).name == "clicks"


@pytest.mark.parametrize("name", ["self", "context"])
def test_a_name_that_airflow_takes_no_asset_of_is_refused(folder: Path, name: str) -> None:
    """One such data set would take the DAGs of all others down."""
    reserved = folder.rename(folder.with_name(name))
    text = (reserved / "dataset.yaml").read_text().replace("name: clicks", f"name: {name}")
    (reserved / "dataset.yaml").write_text(text)
    with pytest.raises(SpecError, match="expected a name that is not reserved"):
        load_spec(reserved)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "dataset.yaml")
    with pytest.raises(SpecError, match="expected a plain file, got a pipe"):
        load_spec(tmp_path)
