"""Files of rows and records as sources: Parquet, ORC, Arrow, RecordIO and TFRecord."""

import pytest

from tests.unit.pipeline.inputs.row_project import (
    FORMATS,
    as_batches,
    make_row_project,
    samples,
)
from tests.unit.pipeline.log_project import DAY
from trainfeed.versions import Ledger

ALL = (*FORMATS, "recordio", "tfrecord")
SOURCES = [f"logs:dt={DAY}/part-{n}" for n in range(3)]


@pytest.fixture(scope="module")
def from_lines(tmp_path_factory):
    """The samples and counts of the rows as JSON lines."""
    project = make_row_project(tmp_path_factory.mktemp("lines"), "lines")
    report = project.build()
    counts = [report[name] for name in ("samples", "quarantined", "filtered")]
    return samples(project), counts


@pytest.mark.parametrize("mode", ["record", "batch"])
@pytest.mark.parametrize("file_format", ALL)
def test_the_same_rows_in_any_format_give_the_samples_of_json_lines(
    tmp_path, from_lines, file_format, mode
):
    project = make_row_project(tmp_path, file_format)
    if mode == "batch":
        as_batches(project)
    report = project.build()
    assert samples(project) == from_lines[0]
    assert [report[name] for name in ("samples", "quarantined", "filtered")] == from_lines[1]
    ledger = Ledger.from_json(project.version().manifest.ledger)
    assert [ledger[source].read.records for source in SOURCES] == [100, 40, 0]
    assert project.build()["verdict"] == "identical"


@pytest.mark.parametrize("file_format", ALL)
@pytest.mark.parametrize("split", ["300B"])
def test_the_size_of_pieces_changes_nothing(tmp_path, file_format, split):
    project = make_row_project(tmp_path, file_format, group_rows=7)
    other = project.elsewhere("pieces")
    project.build()
    project.edit("64MiB", split)
    with (project.env.datasets / "clicks" / "dataset.yaml").open("a") as file:
        file.write("resources: {records_per_task: 10}\n")
    other.build()
    one, two = project.version().manifest, other.version().manifest
    assert (one.content_digest, one.ledger) == (two.content_digest, two.ledger)
