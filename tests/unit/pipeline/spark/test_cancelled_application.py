"""A task that is ended ends its application, also one that is just being submitted."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from trainfeed.errors import EngineError
from trainfeed.pipeline import PlanRef
from trainfeed.pipeline.spark import application
from trainfeed.pipeline.spark.application import SparkApplication
from trainfeed.pipeline.spark.cluster import SparkCluster

MOMENTS = ["pack", "command_of", "Submission"]


@pytest.fixture
def submitted(monkeypatch):
    """Run an application without Spark, and end its task at one of the moments of a submission."""
    begun = []

    class Submission:
        def __init__(self, *_, **__):
            self.is_cancelled, self._ended, self.tail = False, threading.Event(), ""
            begun.append(self)

        def wait(self, _):
            assert self._ended.wait(5), "the application runs on"
            return 143

        def cancel(self):
            self.is_cancelled = True
            self._ended.set()

    env = SimpleNamespace(uses_object_stores=False)
    build = SimpleNamespace(ref=PlanRef("clicks", "2026-01-05", "p1"), env=env)
    stage = SimpleNamespace(spec=SimpleNamespace(folder=None))
    folder = SimpleNamespace(create=lambda _: None, result=lambda: None, job_uri="uri")

    def run(moment):
        made = SparkApplication(build, SparkCluster())

        def at(name, then):
            def call(*arguments, **named):
                result = then(*arguments, **named)
                if name == moment:
                    made.cancel()
                return result

            return call

        shipment = SimpleNamespace(pack=at("pack", lambda *_: None))
        monkeypatch.setattr(application, "Shipment", shipment)
        for name in ("_job", "options_of", "write_options", "command_of"):
            monkeypatch.setattr(application, name, at(name, lambda *_: None))
        monkeypatch.setattr(application, "Submission", at("Submission", Submission))
        monkeypatch.setattr(SparkCluster, "interpreter", lambda _: None)
        with pytest.raises(EngineError, match="was ended by its task"):
            made._submit(stage, folder)
        return begun

    return run


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_application_that_is_cancelled_while_it_is_submitted_does_not_run_on(submitted, moment):
    begun = submitted(moment)
    assert [each.is_cancelled for each in begun] == ([True] if moment == "Submission" else [])
