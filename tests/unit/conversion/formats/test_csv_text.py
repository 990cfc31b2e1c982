"""The text of CSV: delimiters, quotes and encodings."""

from __future__ import annotations

import csv
import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainfeed.conversion import (
    CsvOptions,
    SinkOptions,
    SourceOptions,
    convert_files,
    open_sample_file,
    read_csv,
    transcode,
)
from trainfeed.errors import ConfigError, FormatError
from trainfeed.samples import Field, Schema

ROW = [{"a": "1", "b": "x"}]
PAIR = Schema((Field("a", "int64"), Field("b", "str")))


def rows(path, **options):
    source = open_sample_file(path, SourceOptions(csv=CsvOptions(**options)))
    return list(source.samples())


@pytest.mark.parametrize(("delimiter", "told"), [(";", "';'"), ("\t", "tab"), ("|", "'|'")])
def test_another_delimiter_is_found_and_told(tmp_path, caplog, delimiter, told):
    (tmp_path / "a.csv").write_text(f"a{delimiter}b\n1{delimiter}x\n")
    assert rows(tmp_path / "a.csv") == ROW
    assert list(read_csv(tmp_path / "a.csv")) == ROW
    assert told in caplog.text
    assert "a.csv" in caplog.text


def test_a_comma_is_what_csv_has_and_is_not_talked_about(tmp_path, caplog):
    (tmp_path / "a.csv").write_text("a,b\n1,x\n")
    assert rows(tmp_path / "a.csv") == ROW
    assert not caplog.records


def test_a_header_that_two_delimiters_part_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("a;b,c\n1;2,3\n")
    with pytest.raises(ConfigError, match=r"the header has ',' and ';'.*--delimiter"):
        rows(tmp_path / "a.csv")
    assert rows(tmp_path / "a.csv", delimiter=";") == [{"a": "1", "b,c": "2,3"}]
    assert rows(tmp_path / "a.csv", delimiter=",") == [{"a;b": "1;2", "c": "3"}]


def test_the_schema_decides_between_delimiters(tmp_path):
    (tmp_path / "a.csv").write_text("a;b\n1;x,y\n")
    assert list(read_csv(tmp_path / "a.csv", PAIR)) == [{"a": 1, "b": "x,y"}]


def test_the_name_tsv_stands_for_tabs_both_ways(tmp_path, caplog):
    (tmp_path / "a.tsv").write_text('a\t"b,c"\n1\tx\n')
    assert rows(tmp_path / "a.tsv") == [{"a": "1", "b,c": "x"}]
    (tmp_path / "b.csv").write_text("a,b\n1,x\n")
    source = open_sample_file(tmp_path / "b.csv", SourceOptions(schema=PAIR))
    transcode(source, tmp_path / "b.tsv", SinkOptions())
    assert (tmp_path / "b.tsv").read_text() == "a\tb\n1\tx\n"
    assert not caplog.records


def test_one_column_is_one_column(tmp_path, caplog):
    (tmp_path / "a.csv").write_text("a\n1;2\n")
    assert rows(tmp_path / "a.csv") == [{"a": "1;2"}]
    assert not caplog.records


@pytest.mark.parametrize("spelled", ["tab", "\\t", "\t"])
def test_a_tab_can_be_spelled(tmp_path, spelled):
    (tmp_path / "a.csv").write_text("a\tb\n1\tx\n")
    assert rows(tmp_path / "a.csv", delimiter=spelled) == ROW


def test_another_quote_and_another_encoding(tmp_path):
    (tmp_path / "a.csv").write_bytes("a,b\n1,'é,ß'\n".encode("latin-1"))
    with pytest.raises(FormatError, match="expected UTF-8"):
        rows(tmp_path / "a.csv")
    assert rows(tmp_path / "a.csv", quote="'", encoding="latin-1") == [{"a": "1", "b": "é,ß"}]
    (tmp_path / "b.csv").write_text("a;b\n1;é\n", encoding="utf-16")
    assert rows(tmp_path / "b.csv", encoding="utf-16") == [{"a": "1", "b": "é"}]


def test_bytes_that_are_no_text_of_the_encoding_are_an_error(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"a,b\n1,\xff\n")
    with pytest.raises(FormatError, match="line"):
        rows(tmp_path / "a.csv", encoding="ascii")


@pytest.mark.parametrize(
    "options",
    [
        {"delimiter": ""},
        {"delimiter": ";;"},
        {"delimiter": "\n"},
        {"quote": "\0"},
        {"delimiter": '"'},
        {"encoding": "klingon"},
        {"encoding": "hex"},
        {"encoding": "undefined"},
    ],
)
def test_what_no_csv_can_have_is_refused_before_a_file_is_opened(options):
    with pytest.raises(ConfigError, match="expected"):
        CsvOptions(**options)


def test_shards_of_a_found_delimiter_are_those_of_a_named_one(tmp_path, caplog):
    (tmp_path / "a.csv").write_text("a;b\n" + "".join(f"{n};x{n}\n" for n in range(20)))
    found = convert_files(tmp_path / "a.csv", tmp_path / "found", 3, "p")
    assert "';' separates the cells" in caplog.text
    named = SourceOptions(csv=CsvOptions(delimiter=";"))
    assert convert_files(tmp_path / "a.csv", tmp_path / "named", 3, "p", source=named) == found


@settings(max_examples=200, deadline=None)
@given(
    st.text(st.characters(codec="utf-8", exclude_characters='\r\n"'), max_size=40),
    st.sampled_from(",;\t|"),
)
def test_no_header_with_another_delimiter_is_read_in_silence(tmp_path_factory, text, end):
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_text(f"{text}{end}last\n", newline="")
    messages = []
    handler = logging.Handler()
    handler.emit = messages.append
    logger = logging.getLogger("trainfeed.conversion.csv_files")
    logger.addHandler(handler)
    try:
        rows(path)
    except (ConfigError, FormatError):
        return
    finally:
        logger.removeHandler(handler)
    assert messages or "," in f"{text}{end}"


def test_a_rejected_schema_names_the_columns_of_the_right_delimiter(tmp_path):
    (tmp_path / "a.csv").write_text("x;y\n1;2\n")
    with pytest.raises(FormatError, match=r"expected the columns \['a', 'b'\], got \['x', 'y'\]"):
        list(read_csv(tmp_path / "a.csv", PAIR))


@pytest.mark.parametrize(
    ("field", "cell", "said"),
    [
        (Field("a", "int8"), "yes", "line 2: field 'a': expected int8, got 'yes': "),
        (Field("a", "float32"), "1,5", "line 2: field 'a': expected float32, got '1,5': "),
        (Field("a", "float32", (2,)), "1 2", "expected float32 as a JSON list, got '1 2': "),
    ],
)
def test_a_cell_that_is_no_number_is_named_with_its_field_and_what_was_expected(
    tmp_path, field, cell, said
):
    (tmp_path / "a.csv").write_text(f'a\n"{cell}"\n')
    with pytest.raises(FormatError) as caught:
        list(read_csv(tmp_path / "a.csv", Schema((field,))))
    assert said in str(caught.value)


def test_the_limit_of_the_process_for_cells_is_what_it_was(tmp_path):
    limit, long = csv.field_size_limit(), "x" * 200_000
    (tmp_path / "a.csv").write_text(f"a,b\n1,{long}\n2,{long}\n")
    found = read_csv(tmp_path / "a.csv")
    assert next(found) == {"a": "1", "b": long}
    assert csv.field_size_limit() == limit
    assert next(found) == {"a": "2", "b": long}
    (tmp_path / "b.csv").write_text("a,b\n1,2,3\n")
    with pytest.raises(FormatError):
        list(read_csv(tmp_path / "b.csv"))
    assert csv.field_size_limit() == limit < len(long)
