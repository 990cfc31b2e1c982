"""A table of Iceberg whose metadata and data files lie on a real HDFS, by both protocols."""

from __future__ import annotations

import io
import os
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io import FileIO, OutputFile

from tests.unit.pipeline.inputs.row_project import rows, samples
from tests.unit.pipeline.inputs.table_project import NAME, SCHEMA, at, make_table_project
from tests.unit.pipeline.log_project import DAY
from trainfeed.errors import SourceReplacedError
from trainfeed.files.stores import Location
from trainfeed.pipeline import Build
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.preprocess import preprocess
from trainfeed.sources.iceberg_tables import _Files, _Input

PROTOCOLS = ["TEST_WEBHDFS_URI", "TEST_HDFS_URI"]


class _Output(OutputFile):
    def __len__(self):
        return Location.parse(self.location).stat().size_bytes

    def exists(self):
        return Location.parse(self.location).exists()

    def to_input_file(self):
        return Files({}).new_input(self.location)

    def create(self, overwrite=False):  # noqa: ARG002 - every name is new
        return Location.parse(self.location).open_write()


class _Any(_Input):
    """A file of a table: a writer opens its metadata here, too, which are no file of Avro."""

    def open(self, seekable=True):  # noqa: ARG002 - it is in memory
        return io.BytesIO(self._place.read_bytes())


class Files(_Files):
    """Writes a table where trainfeed reads it; pyiceberg by itself needs Java for that."""

    def __init__(self, properties):
        FileIO.__init__(self, properties)

    def new_input(self, location):
        return _Any(location)

    def new_output(self, location):
        return _Output(location)


@pytest.mark.parametrize("variable", PROTOCOLS)
def test_a_table_on_hdfs_gives_the_samples_of_one_in_a_folder(
    tmp_path: Path, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    same = make_table_project(tmp_path / "same")
    same.build()
    project = make_table_project(tmp_path / "hdfs", counts=())
    place = f"{os.environ[variable]}/lake-{tmp_path.name}-{variable.lower()}"
    catalog = SqlCatalog(
        "default",
        uri=f"sqlite:///{project.path}/catalog.db",
        warehouse=place,
        **{"py-io-impl": f"{__name__}.Files"},
    )
    catalog.drop_table(NAME)
    table = catalog.create_table(NAME, schema=SCHEMA)
    for hour, (first, count) in enumerate([(0, 100), (100, 40)]):
        monkeypatch.setattr(time, "time", lambda hour=hour: at(DAY, 1 + hour) / 1000)
        table.append(pa.Table.from_pylist(list(rows(first, count)), SCHEMA))
        monkeypatch.undo()
    planned = project.elsewhere("planned")
    report = plan(planned.spec, planned.interval(), planned.env)
    project.build()
    assert samples(project) == samples(same)
    inputs = project.version().manifest.inputs
    assert all(each["path"].startswith(place) for each in inputs.values())
    # The native client has no checksums.
    found = {each["checksum"] is not None for each in inputs.values()}
    assert found == {variable == "TEST_WEBHDFS_URI"}
    gone = next(iter(inputs.values()))
    Location.parse(gone["path"]).delete()
    other = project.elsewhere("other")
    with pytest.raises(SourceReplacedError, match=rf"of table {NAME}.*is gone"):
        other.build()
    with pytest.raises(SourceReplacedError, match=str(gone["snapshot"]["id"])):
        preprocess(Build(planned.spec, planned.env, report.ref), 0)
