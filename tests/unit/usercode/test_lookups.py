"""Lookup files: what is digested is what is parsed; only plain files are taken, without waiting."""

import hashlib
import os
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from tests.unit.pipeline.clicks import CODE, SPEC
from trainfeed.errors import CodeChangedError, FormatError
from trainfeed.specification import load_spec
from trainfeed.usercode import _lookups, load_lookups, lookup_digests


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
