"""From written logs to versions: what is published is what was written, joined, exactly."""

import csv
import json
import shutil
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from examples.ctr.dictionary import dictionary_text
from examples.ctr.feature_numbers import FeatureNumbers
from examples.ctr.impressions import CAMPAIGNS, LOGS, read_log
from examples.ctr.planted import FILTERED, KINDS
from examples.ctr.writer import write_days
from tests.unit.ctr.conftest import DAYS, FOLDER, ROWS_PER_DAY
from trainfeed.core.config import Environment
from trainfeed.errors import ConfigError, ConflictError, FormatError
from trainfeed.files.stores import Location
from trainfeed.pipeline import BuildRequest
from trainfeed.pipeline.local import build
from trainfeed.readers import open_dataset
from trainfeed.specification import load_spec
from trainfeed.versions import DatasetFolder, Version, init_root

ROOT = Path(__file__).parents[3]
REAL = ROOT / "data" / "obp"


@pytest.fixture
def env(tmp_path, data):
    """An installation whose data set has the dictionary of the made-up items."""
    places = {name: str(tmp_path / name) for name in ("root", "landing", "work")}
    folder = tmp_path / "datasets" / "ctr"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "items.csv").write_text(dictionary_text(FeatureNumbers(data)))
    init_root(tmp_path / "root")
    return Environment(
        **places, kafka={}, datasets=folder.parent, logs={"hdfs_default": str(tmp_path)}
    )


def write(tmp_path, data, **more):
    place = Location.parse(str(tmp_path / "logs" / "ctr"))
    return write_days(data, place, tmp_path / "ledger.json", **{"days": DAYS, **more})


def build_day(env, day):
    spec = load_spec(env.datasets / "ctr")
    build(spec, spec.schedule_model().interval_named(day), env)
    return Version.resolve(DatasetFolder(Path(env.root), "ctr"), day)


def row_of(sample):
    return zip(sample["indices"].tolist(), sample["values"].tolist(), strict=True)


def samples_of(version):
    """Every sample, its label and its row, and how often it is there."""
    return Counter(
        (int(sample["label"]), *row_of(sample))
        for split in ("train", "eval")
        for sample in open_dataset(version.path, split=split).reader()()
    )


def expected(data, day, env):
    """The same by the files of the distribution and the lookup file, read with csv alone."""
    numbers, half = FeatureNumbers(data), struct.Struct("<f")
    with (env.datasets / "ctr" / "items.csv").open() as lines:
        items = {int(row.pop("item")): row for row in csv.DictReader(lines)}
    found = Counter()
    for log in LOGS:
        for row in (row for row in read_log(data, log) if row.day == day):
            features = numbers.of_line(log, row)
            joined = dict(items[max(features)])
            (measure,) = half.unpack(half.pack(float(joined.pop("measure"))))
            features |= {4000: measure, **{int(index): 1.0 for index in joined.values()}}
            found[row.click, *sorted(features.items())] += 1
    return found


def test_what_was_written_is_what_is_published(tmp_path, data, env):
    ledger = write(tmp_path, data)[DAYS[0]]
    version = build_day(env, DAYS[0])
    found = samples_of(version)
    assert found == expected(data, DAYS[0], env)
    assert found.total() == ledger["samples"] == ROWS_PER_DAY * len(LOGS)
    assert sum(key[0] * count for key, count in found.items()) == ledger["clicks"] > 0
    pairs = [pair for key in found.elements() for pair in key[1:]]
    assert len(pairs) == ledger["features"]
    assert sum(index for index, _ in pairs) == ledger["index_sum"]
    assert sum(value for _, value in pairs) == pytest.approx(ledger["value_sum"], rel=1e-9)


def test_planted_lines_are_quarantined_and_filtered_by_their_reasons(tmp_path, data, env):
    ledger = write(tmp_path, data, copies=3)[DAYS[0]]
    planted = Counter()
    for kind, count in ledger["planted"].items():
        planted[KINDS[kind]] += count
    manifest = json.loads((build_day(env, DAYS[0]).path / "MANIFEST.json").read_text())
    assert sum(planted.values()) + ledger["samples"] == ledger["lines"]
    filtered = {reason: planted.pop(reason) for reason in FILTERED & planted.keys()}
    assert manifest["quarantine"]["reasons"] == dict(planted)
    assert manifest["filtered"] == filtered


def test_copies_are_samples_of_their_own(tmp_path, data, env):
    write(tmp_path, data, copies=3)
    once = expected(data, DAYS[0], env)
    assert samples_of(build_day(env, DAYS[0])) == Counter({k: 3 * n for k, n in once.items()})


def test_an_item_becomes_known_by_a_new_dictionary(tmp_path, data, env):
    write(tmp_path, data)
    path = env.datasets / "ctr" / "items.csv"
    whole = path.read_text()
    path.write_text("".join(whole.splitlines(keepends=True)[:-1]))
    spec_file = env.datasets / "ctr" / "dataset.yaml"
    spec_file.write_text(spec_file.read_text().replace("max: 0.02", "max: 0.2"))
    few = samples_of(build_day(env, DAYS[0]))
    path.write_text(whole)
    spec = load_spec(env.datasets / "ctr")
    interval = spec.schedule_model().interval_named(DAYS[0])
    build(spec, interval, env, BuildRequest(rebuild="the dictionary has the item"))
    every = samples_of(Version.resolve(DatasetFolder(Path(env.root), "ctr"), DAYS[0]))
    last = sum(CAMPAIGNS.values()) - 1 + 2000
    assert set((every - few).elements()) == {key for key in every if (last, 1.0) in key}
    assert every == expected(data, DAYS[0], env) != few


def test_logs_are_never_written_over(tmp_path, data):
    write(tmp_path, data)
    with pytest.raises(ConflictError, match="expected no folder"):
        write(tmp_path, data)


def test_missing_data_is_named(tmp_path):
    with pytest.raises(ConfigError, match="expected the data of obp in"):
        FeatureNumbers(tmp_path)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("random/men/item_context.csv", "expected items: TypeError"),
        ("random/all/item_context.csv", "expected items 0 to 79"),
        ("bts/men/men.csv", "expected an impression after 2019"),
    ],
)
def test_other_files_of_these_names_are_refused(tmp_path, data, file, message):
    shutil.copytree(data, tmp_path / "copy")
    path = tmp_path / "copy/obp/dataset/obd" / file
    path.write_text(path.read_text()[: -300 if "all" in file else -40])
    with pytest.raises(FormatError, match=message):
        FeatureNumbers(tmp_path / "copy")


def test_the_commands_write_logs_ledger_and_dictionary(tmp_path, data):
    def command(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "examples.ctr", *map(str, arguments), "--data", data],
            env={"PYTHONPATH": f"{ROOT}:{ROOT / 'include'}"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout

    told = json.loads(command("logs", "--to", "logs", "--ledger", "l/l.json", "--days", 1))
    ledger = json.loads((tmp_path / "l/l.json").read_text())
    assert told == {name: ledger["2019-11-24"][name] for name in ("lines", "samples", "clicks")}
    names = sorted(path.name for path in (tmp_path / "logs/dt=2019-11-24").iterdir())
    assert names == [
        "_SUCCESS", "bts-all.libfm", "bts-men.libfm.gz", "bts-women.libfm.zst",
        "random-all.libfm", "random-men.libfm", "random-women.libfm",
    ]  # fmt: skip
    command("dictionary", "--to", "items.csv")
    assert (tmp_path / "items.csv").read_text() == dictionary_text(FeatureNumbers(data))


@pytest.mark.skipif(
    not REAL.is_dir(), reason="the data is not there: requirements/ctr.txt says how to get it"
)
def test_the_shipped_dictionary_is_that_of_the_real_items():
    assert (FOLDER / "items.csv").read_text() == dictionary_text(FeatureNumbers(REAL))
