"""A table of Iceberg on executors, which ask no catalogue: the plan has what they need of it."""

import pyarrow as pa
import pytest
from pyiceberg.types import StringType

from tests.integration.spark.conftest import Case
from tests.unit.pipeline.inputs.row_project import as_batches, rows
from tests.unit.pipeline.inputs.table_project import at, make_table_project
from tests.unit.pipeline.log_project import DAY
from trainfeed.versions import Manifest


@pytest.mark.parametrize("mode", ["batch", "record"])
def test_both_engines_build_equal_versions_of_a_table(tmp_path, mode):
    project = make_table_project(tmp_path / "table", split_bytes="300B")
    with project.table().update_schema() as update:
        update.add_column("note", StringType())
        update.move_first("copies")
    names = {"value": pa.float64(), "copies": pa.int32(), "name": pa.utf8(), "note": pa.utf8()}
    later = [{**row, "note": "new"} for row in rows(140, 30)]
    project.append(later, at(DAY, 20), pa.schema(list(names.items())))
    if mode == "batch":
        as_batches(project)
    case = Case(project.spec, DAY, project.env, 170 * 16).in_groups(3)
    here, there = (case.at(tmp_path / name, name) for name in ("local", "spark"))
    here.build()
    there.build()
    assert there.digest == here.digest
    found, _ = Manifest.read(there.version)
    assert len({each["snapshot"]["id"] for each in found.inputs.values()}) == 3
    assert sum(each["read"]["records"] for each in found.ledger.values()) == 170
    assert found.quarantine["reasons"] == {"no_value": 17}
