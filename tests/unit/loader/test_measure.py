"""``trainfeed bench read``: what is printed, for people and for scripts."""

import json
import sys

import pytest
from typer.testing import CliRunner

from tests.unit.loader.conftest import children, labels
from tests.unit.loader.datasets import Squares
from trainfeed.cli._app import app
from trainfeed.errors import ConfigError
from trainfeed.loader import DataLoader, _loader, measure_read


def test_a_measure_says_where_time_went(images):
    with DataLoader(images, 8, shuffle=True) as loader:
        measure = measure_read(loader, epochs=2)
        assert (measure.epochs, measure.samples) == (2, 200)
        assert measure.best_samples_per_s >= measure.samples_per_s > 0
        parts = measure.wait_s + measure.assemble_s + measure.rest_s
        assert parts == pytest.approx(measure.seconds)
        assert 0 < measure.first_batch_s < measure.seconds
        with pytest.raises(ConfigError, match="expected epochs from 1 on"):
            measure_read(loader, epochs=0)


@pytest.mark.parametrize("options", [[], ["--shuffle", "--threads", "1"]])
def test_the_command_reads_files(images, options):
    pattern = images.paths[0].replace("images-0", "images-*")
    found = CliRunner().invoke(app, ["bench", "read", pattern, *options])
    assert found.exit_code == 0
    assert "3 of 100 samples" in found.output
    found = CliRunner().invoke(app, ["bench", "read", pattern, "--json", *options])
    assert json.loads(found.output)["samples"] == 300


def test_the_command_refuses_what_is_neither():
    found = CliRunner().invoke(app, ["bench", "read", "nothing"])
    assert isinstance(found.exception, ConfigError)


def test_long_passes_report_in_between(monkeypatch):
    monkeypatch.setattr(_loader, "_REPORT_EVERY_S", -1.0)
    reports = []
    with DataLoader(Squares(20), 5, on_report=reports.append) as loader:
        list(loader)
    assert [report.batches for report in reports] == [1, 2, 3, 4, 4]


def test_threads_replace_processes_where_there_is_no_interpreter_lock(monkeypatch):
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    before = children()
    with DataLoader(Squares(20), 5, num_workers=2) as loader:
        assert labels(loader) == list(range(20))
        assert children() == before
