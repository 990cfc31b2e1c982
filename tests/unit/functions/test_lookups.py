"""Lookup files: what is digested is what is parsed; only plain files are taken, without waiting."""

import hashlib
import math
import os
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from tests.unit.pipeline.clicks import CODE, SPEC
from trainfeed.core.reading_rules import NEWEST, ReadingRules
from trainfeed.errors import CodeChangedError, ConfigError, FormatError
from trainfeed.functions import load_lookups, lookup_digests
from trainfeed.functions import lookups as _lookups
from trainfeed.specification import load_spec


@pytest.fixture
def spec(tmp_path):
    (tmp_path / "clicks").mkdir()
    (tmp_path / "clicks/preprocess.py").write_text(CODE)
    (tmp_path / "clicks/dataset.yaml").write_text(SPEC + "lookups: {names: names.csv}\n")
    (tmp_path / "clicks/names.csv").write_text("id,name\n1,a\n")
    return load_spec(tmp_path / "clicks")


def test_a_lookup_has_the_digest_of_its_bytes(spec):
    data = (spec.folder / "names.csv").read_bytes()
    assert lookup_digests(spec) == {"names": hashlib.sha256(data).hexdigest()}


@pytest.mark.timeout(30)
def test_a_pipe_in_place_of_a_lookup_is_refused_and_not_waited_for(spec):
    path = spec.folder / "names.csv"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(FormatError, match=r"expected a plain file, got a pipe in .*names\.csv"):
        lookup_digests(spec)


def test_the_bytes_that_were_digested_are_parsed(spec, monkeypatch):
    planned = lookup_digests(spec)
    path, real = spec.folder / "names.csv", _lookups.open_plain

    @contextmanager
    def refreshed_after_every_reading(*place, **options):
        with real(*place, **options) as file:
            yield file
        path.write_text("id,name\n1,b\n")

    monkeypatch.setattr(_lookups, "open_plain", refreshed_after_every_reading)
    assert load_lookups(spec, planned)["names"].to_pydict() == {"id": ["1"], "name": ["a"]}
    with pytest.raises(CodeChangedError):
        load_lookups(spec, planned)


def test_a_lookup_of_each_kind_has_the_rows_of_its_file(spec):
    table = pa.table({"id": [1, 2, 3], "name": ["a", None, "c"]}).replace_schema_metadata(
        {"k": "v"}
    )
    pyarrow.csv.write_csv(table.drop_columns("name"), spec.folder / "one.csv")
    pyarrow.parquet.write_table(table, spec.folder / "two.parquet")
    with pa.ipc.new_file(spec.folder / "three.arrow", table.schema) as file:
        file.write_table(table, max_chunksize=2)
    lookups = {"one": "one.csv", "two": "two.parquet", "three": "three.arrow"}
    many = spec.model_copy(update={"lookups": lookups})
    found = load_lookups(many, lookup_digests(many))
    assert found["one"].to_pydict() == {"id": ["1", "2", "3"]}
    assert found["two"].equals(pyarrow.parquet.read_table(spec.folder / "two.parquet"))
    assert found["three"].equals(table)
    assert found["three"].schema.metadata == {b"k": b"v"}


def read(spec, text, types=None, rules=NEWEST):
    """The columns of names.csv, read with some declared types."""
    (spec.folder / "names.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    declared = spec.model_copy(update={"lookup_types": {"names": types or {}}})
    table = load_lookups(declared, lookup_digests(declared), rules)["names"]
    return table.to_pydict()


AS_THEY_STAND = [
    "00501",
    "18446744073709551615",
    "1e5",
    "NA",
    "null",
    "",
    "true",
    "2024-01-01",
    "\\N",
]


def test_cells_without_a_type_are_text_as_they_stand(spec):
    cells = [*AS_THEY_STAND, "a,b", 'a"b', "a\nb", "é"]
    text = "".join(f'"{cell.replace(chr(34), chr(34) * 2)}",x\n' for cell in cells)
    assert read(spec, "\ufeffid,name\n" + text)["id"] == cells


TYPED = [
    ("int64", "9007199254740993", 9007199254740993),
    ("int64", "007", 7),
    ("uint64", "18446744073709551615", 18446744073709551615),
    ("int64", "", None),
    ("float64", "-0.0", -0.0),
    ("float64", "1e5", 100000.0),
    ("float64", "-Infinity", -math.inf),
    ("float64", "", None),
    ("bool", "True", True),
    ("str", "", ""),
    ("str", "NA", "NA"),
]
WRONG = [
    *[
        ("int64", cell)
        for cell in ("1.0", "x", " 1", "0x10", "1_0", "\uff19", "9223372036854775808")
    ],
    *[("uint8", cell) for cell in ("-1", "256")],
    *[("float64", cell) for cell in ("1e400", "nan", "inf", "9007199254740993", "1,5")],
    *[("bool", cell) for cell in ("1", "yes")],
]


@pytest.mark.parametrize(("dtype", "cell", "wanted"), TYPED)
def test_a_declared_type_gives_the_value_of_the_cell(spec, dtype, cell, wanted):
    found = read(spec, f'id,name\n"{cell}",a\n', {"id": dtype})
    assert repr(found) == repr({"id": [wanted], "name": ["a"]})


@pytest.mark.parametrize(("dtype", "cell"), WRONG)
def test_a_cell_of_another_type_is_refused_with_its_row_and_column(spec, dtype, cell):
    with pytest.raises(ConfigError, match=r"names\.csv .*row 2, column 'id': expected"):
        read(spec, f'id,name\n{"true" if dtype == "bool" else 0},a\n"{cell}",b\n', {"id": dtype})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "id,id\n1,2\n",
        "id,\n1,\n",
        "id,name\n1\n",
        'id,name\n1,"a\n',
        'id,name\n1,"a"b\n',
        "id\n1\n\n2\n",
    ],
)
def test_a_file_that_is_no_table_is_refused(spec, text):
    with pytest.raises(ConfigError, match=r"names\.csv cannot be read: line "):
        read(spec, text)


def test_a_column_that_is_not_utf8_is_bytes_and_the_log_says_so(spec, caplog):
    data = "id,name\n1,Münster\n2,Rio\n".encode("latin-1")
    assert read(spec, data) == {"id": ["1", "2"], "name": [b"M\xfcnster", b"Rio"]}
    assert "'name'" in caplog.text
    with pytest.raises(ConfigError, match="UTF-8"):
        read(spec, data, {"name": "str"})


def test_types_of_what_is_no_column_are_refused(spec):
    with pytest.raises(ConfigError, match="lookup_types"):
        read(spec, "id,name\n1,a\n", {"idd": "int64"})


def test_the_first_rules_guess_as_they_always_did(spec):
    found = read(spec, "id,name\n00501,a\n", {"id": "str"}, ReadingRules.GUESSED)
    assert found == {"id": [501], "name": ["a"]}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("id,name\nx7,a\n" + "1,a\n" * 999, "line 2: row 1"),
        ("id,name\n1,a\nx7,b\n2,c\n", "line 3: row 2"),
        ('id,name\n1,"a\nb"\n\nx7,"c\nd"\n2,e\n', "line 6: row 2"),
        ("id,name\n" + "1,a\n" * 70_000 + "x7,a\n1,a\n", "line 70002: row 70001"),
    ],
)
def test_a_cell_that_is_refused_has_the_last_line_of_its_row(spec, text, place):
    with pytest.raises(ConfigError, match=f": {place}, column 'id': expected int64"):
        read(spec, text, {"id": "int64"})
