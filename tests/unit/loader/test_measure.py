"""``trainfeed bench read``: its output as a table and as JSON."""

import json
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.unit.loader.conftest import children, labels
from tests.unit.loader.datasets import Squares
from trainfeed.cli._app import app
from trainfeed.errors import ConfigError
from trainfeed.loader import Batch, DataLoader, LoaderReport, measure_read
from trainfeed.loader import loader as _loader


def test_a_measure_says_where_time_went(images):
    with DataLoader(images, 8, shuffle=True) as loader:
        measure = measure_read(loader, epochs=2)
        assert (measure.epochs, measure.samples) == (2, 200)
        assert measure.best_samples_per_s >= measure.samples_per_s > 0
        assert 0 < measure.first_batch_s < measure.seconds
        with pytest.raises(ConfigError, match="expected epochs from 1 on"):
            measure_read(loader, epochs=0)


class Clocked:
    """A loader of two epochs of two batches: at 1, 2, 5 and 9 s, of which it waited 3."""

    def __init__(self, monkeypatch):
        self.now_s = 0.0
        self.due_s = iter([1.0, 2.0, 5.0, 9.0])
        monkeypatch.setattr("trainfeed.loader.loader.time.perf_counter", lambda: self.now_s)

    def __iter__(self):
        for _ in range(2):
            self.now_s = next(self.due_s)
            yield Batch({"x": np.zeros(6)}, None)

    def report(self):
        return LoaderReport(samples=24, bytes=192, wait_s=3.0, assemble_s=2.0, load_s=2.5)


def test_a_measure_tells_waiting_assembling_and_the_rest_apart(monkeypatch):
    measure = measure_read(Clocked(monkeypatch), epochs=2)
    assert (measure.seconds, measure.first_batch_s) == (9.0, 1.0)
    assert (measure.wait_s, measure.assemble_s, measure.rest_s) == (3.0, 2.0, 4.0)
    assert measure.stall_fraction == pytest.approx(1 / 3)
    assert measure.samples_per_s == pytest.approx(24 / 9)
    assert measure.best_samples_per_s == 6.0


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
