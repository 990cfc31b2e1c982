"""A file that fails while records are at work: the error says which records, in both modes."""

import errno
import os
from pathlib import Path

import pytest

from tests.unit.pipeline.clicks import START_MS, batch, event
from tests.unit.pipeline.functions.test_batch_mode import CODE as BATCH_CODE
from tests.unit.pipeline.stage.test_full_everywhere import run_here
from trainfeed.errors import (
    FormatError,
    PreprocessError,
    QuotaExceededError,
    StorageError,
)
from trainfeed.files import os_errors
from trainfeed.pipeline import ingest as ingesting
from trainfeed.pipeline import local
from trainfeed.pipeline import preprocess as _function_run
from trainfeed.pipeline.functions import jobs as _group
from trainfeed.sources import LandingFile

ROWS = 20
RAISES = "\n    if record.offset == 5:\n        raise OSError({0}, 'from a file of the function')\n"
BATCH_RAISES = "\n    raise OSError({0}, 'from a file of the function')\n"


@pytest.fixture(params=["record", "batch"])
def mode(request, project, monkeypatch):
    """A build of twenty records in this process, in one of the modes."""
    project.record({0: [batch([event(i, START_MS + i) for i in range(ROWS)])]})
    monkeypatch.setattr(_function_run, "run_jobs", run_here)
    monkeypatch.setattr(local, "start_workers", lambda *_, **__: None)
    if request.param == "batch":
        project.edit("input: record", "input: batch")
        (project.env.datasets / "clicks" / "preprocess.py").write_text(BATCH_CODE)
    return request.param


def failing(number, path):
    with os_errors(path):
        raise OSError(number, os.strerror(number))


def after_ingest(monkeypatch, act):
    """Do something between two stages."""
    ingest = ingesting.ingest

    def stage(*arguments):
        report = ingest(*arguments)
        act()
        return report

    stage.__name__ = "ingest"
    monkeypatch.setattr(ingesting, "ingest", stage)


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, QuotaExceededError),
        (errno.EDQUOT, QuotaExceededError),
        (errno.EIO, StorageError),
    ],
)
def test_a_work_file_that_fails_names_the_records_at_work(project, monkeypatch, mode, number, kind):
    monkeypatch.setattr(_group.Group, "_write", lambda *_: failing(number, "/work/00000.arrow"))
    monkeypatch.setattr(_group.SampleSorter, "has_room", lambda *_: False)
    with pytest.raises(kind) as caught:
        project.build()
    text = str(caught.value)
    assert f"/work/00000.arrow: {os.strerror(number).lower()}" in text
    places = {"record": f"offset {ROWS - 1}, in", "batch": f"offsets 0 to {ROWS - 1}, in"}
    assert f"{places[mode]} [0, {ROWS}) of kafka:clicks/0" in text


@pytest.mark.parametrize("is_ours", [True, False])
def test_a_landing_file_that_cannot_be_read_on_names_the_records_before(
    project, monkeypatch, mode, is_ours
):
    read = LandingFile.iter_batches

    def breaks(file, *, verifies):
        yield from read(file, verifies=verifies)
        if is_ours:
            failing(errno.EIO, "/landing/0.arrow")
        raise OSError(errno.EIO, "Input/output error")

    after_ingest(monkeypatch, lambda: monkeypatch.setattr(LandingFile, "iter_batches", breaks))
    with pytest.raises(StorageError, match="input/output error") as caught:
        project.build()
    assert f"in [0, {ROWS}) of kafka:clicks/0" in str(caught.value)
    assert ("/landing/0.arrow" in str(caught.value)) == is_ours


def test_a_landing_file_that_was_cut_names_its_file(project, mode, monkeypatch):
    def cut():
        (file,) = Path(project.env.landing).rglob("*.arrow")
        os.truncate(file, file.stat().st_size // 2)

    after_ingest(monkeypatch, cut)
    with pytest.raises(FormatError, match=r"landing/.*\.arrow"):
        project.build()


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_file_of_the_function_that_fails_names_the_record(project, mode, number):
    file = project.env.datasets / "clicks" / "preprocess.py"
    head, found, rest = file.read_text().partition(", lookups):\n")
    assert found
    code = (RAISES if mode == "record" else BATCH_RAISES).format(number)
    file.write_text(head + found + code + rest)
    with pytest.raises(PreprocessError, match="raised OSError") as caught:
        project.build()
    place = "at kafka:clicks/0 offset 5" if mode == "record" else "offsets 0 to 19 (20 rows)"
    assert place in str(caught.value)
    assert "from a file of the function" in str(caught.value)
