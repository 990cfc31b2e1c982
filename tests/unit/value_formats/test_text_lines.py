"""Lines of CSV and JSON as columns, compared with Python's readers, and damaged at random."""

import csv
import json
import random

import pyarrow as pa
import pytest

from trainfeed.value_formats import CsvDialect, CsvLines, JsonLines, OpenQuoteError, csv_header

PLAIN = CsvDialect(",", '"', ("",))
FIELDS = {"n": "int64", "x": "float64", "ok": "bool", "t": "str"}
NAMES = ["t", "n", "x", "ok", "z"]
TEXTS = ("", "a", "é, ü", 'say "x"', "a;b", " b ", "NA", "'", "1", "\t", "\0", "🙂")


def row(draw):
    return {
        "n": draw.choice([None, 0, -5, 2**63 - 1, -(2**63), draw.randrange(1000)]),
        "x": draw.choice([None, 0.5, -1e300, 3.0, draw.random()]),
        "ok": draw.choice([None, True, False]),
        "t": draw.choice(TEXTS),
        "z": draw.choice(TEXTS),
    }


def as_line(found, delimiter=","):
    """A line with quotes where they are needed: around an empty text, delimiters and quotes."""
    cells = []
    for name in NAMES:
        text = "" if found[name] is None else str(found[name])
        if isinstance(found[name], str) and (not text or set(text) & {delimiter, '"'}):
            text = '"' + text.replace('"', '""') + '"'
        cells.append(text)
    return delimiter.join(cells).encode()


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_cells_are_those_that_pythons_reader_finds(delimiter):
    draw = random.Random(delimiter)
    dialect = CsvDialect(delimiter, '"', ("",))
    rows = [row(draw) for _ in range(2000)]
    lines = pa.array([as_line(each, delimiter) for each in rows], pa.binary())
    found = CsvLines(FIELDS, NAMES, dialect).read(lines)
    assert not found.refused
    assert found.column.to_pylist() == [{name: each[name] for name in FIELDS} for each in rows]
    assert [each["t"] for each in rows] == [
        next(csv.reader([line.decode()], delimiter=delimiter, strict=True))[0]
        for line in lines.to_pylist()
    ]


def test_damage_is_refused_by_its_row_and_no_neighbour_notices():
    draw = random.Random(7)
    reader = CsvLines(FIELDS, NAMES, PLAIN)
    batches = accepted = stopped = 0
    for _ in range(400):
        rows = [row(draw) for _ in range(20)]
        lines = [as_line(each) for each in rows]
        whole = reader.read(pa.array(lines, pa.binary())).column.to_pylist()
        place = draw.randrange(len(lines))
        lines[place] = damaged(lines[place], draw)
        batches += 1
        if lines[place].count(b'"') % 2 and is_text(lines[place]):
            with pytest.raises(OpenQuoteError) as refused:
                reader.read(pa.array(lines, pa.binary()))
            assert refused.value.row == place
            stopped += 1
            continue
        found = reader.read(pa.array(lines, pa.binary()))
        others = found.column.to_pylist()
        assert [each.row for each in found.refused] in ([], [place])
        if not found.refused:
            accepted += 1
            assert others[place] == by_python(lines[place])
        assert others[:place] + others[place + 1 :] == whole[:place] + whole[place + 1 :]
    assert stopped > 20
    assert 0 < accepted < batches - 100


def is_text(line):
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def damaged(line, draw):
    data = bytearray(line or b"x")
    place = draw.randrange(len(data))
    match draw.randrange(4):
        case 0:
            data[place] = draw.choice(b'",;a0\xff\r')
        case 1:
            del data[place:]
        case 2:
            data[place:place] = draw.choice([b'"', b",", b'""', b"x"])
        case _:
            del data[place]
    return bytes(data)


def by_python(line):
    """The fields by a strict reader of one line."""
    (cells,) = csv.reader([line.decode()], strict=True)
    found = dict(zip(NAMES, cells, strict=True))
    return {
        "n": None if found["n"] == "" else int(found["n"]),
        "x": None if found["x"] == "" else float(found["x"]),
        "ok": None if found["ok"] == "" else found["ok"].lower() in {"true", "1"},
        # Python's reader does not say whether there were quotes.
        "t": None if found["t"] == "" and not line.startswith(b'""') else found["t"],
    }


@pytest.mark.parametrize(
    ("line", "names"),
    [
        (b"a,b", ["a", "b"]),
        (b'\xef\xbb\xbf"a ""x""",b,', ['a "x"', "b", ""]),
        (b"2026,1.5", ["2026", "1.5"]),
        (b"", [""]),
    ],
)
def test_a_header_is_names(line, names):
    assert csv_header(line, PLAIN) == names


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"a,a", "names 'a' twice"),
        (b'"a', "odd number of quotes"),
        (b'a"b"', "quotes stand within a cell"),
        (b"a\rb", "quotes stand within a cell"),
        (b"\xff", "utf-8"),
    ],
)
def test_what_is_no_header_is_refused(line, message):
    with pytest.raises(ValueError, match=message):
        csv_header(line, PLAIN)


def test_no_lines_are_no_rows():
    nothing = pa.array([], pa.binary())
    for reader in (CsvLines(FIELDS, NAMES, PLAIN), JsonLines(FIELDS)):
        found = reader.read(nothing)
        assert (len(found.column), list(found.refused)) == (0, [])
        assert found.column.type == reader.type


def test_one_column_may_be_empty_and_a_slice_is_its_own_lines():
    reader = CsvLines({"a": "int64"}, ["a"], PLAIN)
    lines = pa.array([b"x", b"1", b"", b'"2"', b"y"], pa.binary()).slice(1, 3)
    found = reader.read(lines)
    assert (found.column.to_pylist(), found.refused) == ([{"a": 1}, {"a": None}, {"a": 2}], [])


def test_json_gives_what_pythons_reader_gives():
    draw = random.Random(5)
    rows = [row(draw) for _ in range(500)]
    for each in rows[::7]:
        del each["t"]
    lines = pa.array([json.dumps(each).encode() for each in rows], pa.binary())
    found = JsonLines(FIELDS).read(lines)
    assert not found.refused
    assert found.column.to_pylist() == [{name: each.get(name) for name in FIELDS} for each in rows]
