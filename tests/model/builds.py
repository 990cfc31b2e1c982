"""Drives trainfeed's planning over a history: the same calls as stage ``plan``, and their results.

Boundary files are real, in a folder for each history. Only the topic is simulated, and nothing
is landed or published: the ranges of a plan show the records that the version would hold.
"""

from __future__ import annotations

import inspect
import os
import re
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np

from tests.model.simulated_topic import SimulatedTopic
from trainfeed.core.config import Environment
from trainfeed.core.intervals import Interval, format_time
from trainfeed.errors import SourceReplacedError, TrainFeedError, WindowOpenError
from trainfeed.pipeline.functions.account import Lateness
from trainfeed.pipeline.inputs import recorded_edges as _recorded_edges
from trainfeed.pipeline.inputs import topics as _topic_inputs
from trainfeed.pipeline.inputs.recorded_edges import Neighbour, require_neighbours_agree
from trainfeed.specification import load_spec
from trainfeed.versions import DatasetFolder

__all__ = ["Builds", "Built", "Outcome", "Project", "Simulation", "Stop", "build_history"]

_SPEC = """
name: events
description: random logs
schedule: "@daily"
start: 2024-01-01
source:
  kafka: {connection: kafka_default, topic: events, settle: 30m}
preprocess: {function: "preprocess:events"}
schema:
  value: {dtype: float32}
"""
_TAKES_CLOCK = "clock_ms" in inspect.signature(_topic_inputs.open_topics).parameters
_NAMED = re.compile(r"kafka:[^/ ]+/(\d+) offsets \[(\d+), (\d+)\)")


class Project:
    """A data set in a folder; every history gets a publication root of its own."""

    def __init__(self, folder, *, missing="empty"):
        datasets = folder / "datasets"
        (datasets / "events").mkdir(parents=True)
        (datasets / "events" / "dataset.yaml").write_text(
            _SPEC.replace("settle:", f"missing: {missing}, settle:")
        )
        (datasets / "events" / "preprocess.py").write_text("def events(record, lookups): ...\n")
        self.folder = folder
        self.datasets = datasets
        self.spec = load_spec(datasets / "events")

    def environment(self, root):
        return Environment(
            root=str(root), landing=str(root / "landing"), work=str(root / "work"), kafka={},
            datasets=self.datasets,
        )  # fmt: skip


@dataclass(frozen=True)
class Built:
    """A version: ranges by partition, and what trainfeed counts in them.

    Attributes:
        starts: By partition the offset of the boundary at the window's start, and the log start
            when it was found.
        read: By partition the offsets of the records that are in the range.
        empty_because: The plan's reasons for sources without a record, if it has any.
    """

    window: int
    now: int
    uuid: str
    ranges: dict[int, tuple[int, int]]
    starts: dict[int, tuple[int, int]]
    read: dict[int, np.ndarray]
    gaps: list[dict]
    counted: dict[int, Lateness]
    inputs: dict[str, object]
    empty_because: dict[str, str]


@dataclass(frozen=True)
class Stop:
    """A build that was refused because of records that retention may have taken."""

    window: int
    now: int
    uuid: str
    message: str


@dataclass
class Outcome:
    """Everything that the builds of a history gave.

    Attributes:
        waits: Builds that were told to come again.
        unlike: Retries that planned something else than what was published.
        errors: Any other failure: none is expected.
    """

    built: dict[int, Built] = field(default_factory=dict)
    stops: list[Stop] = field(default_factory=list)
    waits: int = 0
    replaced: int = 0
    unlike: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    work: dict[str, int] = field(default_factory=lambda: defaultdict(int))


class Simulation:
    """Opens the simulated topic of a history as it is at a time, and reads it."""

    def __init__(self, history):
        self._history = history

    def open(self, now):
        return SimulatedTopic(self._history.incarnation(now), now, step=self._history.step)

    @staticmethod
    def read(topic, partition, start, end):
        """Return offsets and stamps of the records that a range holds now."""
        return topic.records(partition, start, end)


def build_history(project, history, root, broker=None, *, kind=None):
    """Build all attempts of the history, then everything that is left, and return what came out.

    Args:
        project: The data set.
        history: The windows to build, and their times.
        root: An empty folder.
        broker: Serves the history's topic; a simulation of it by default.
        kind: Makes the builds; ``Builds`` by default.
    """
    outcome = Outcome()
    build = (kind or Builds)(project, history, root, outcome, broker or Simulation(history))
    # Nothing here is about durability, which would take most of the time.
    with (
        mock.patch.object(os, "fsync", new=_nothing),
        mock.patch.object(_topic_inputs, "open_source", new=build.open_source),
        mock.patch.object(_recorded_edges, "ending_at", new=build.ending_at),
        mock.patch.object(_recorded_edges, "starting_at", new=build.starting_at),
    ):
        for attempt in history.attempts:
            build.attempt(attempt.window, attempt.now)
        for nth, window in enumerate(history.all_windows):
            build.close(window, history.closing + nth)
    return outcome


class Builds:
    """Builds windows as runs do, and keeps what came out."""

    def __init__(self, project, history, root, outcome, broker):
        self.topic = None
        self._broker = broker
        self._project = project
        self._history = history
        self._env = project.environment(root)
        self._folder = DatasetFolder(Path(root), "events")
        self._outcome = outcome

    def open_source(self, *_):
        """Return the topic of the build that is under way."""
        return self.topic

    def attempt(self, window, now, *, allow_gap=None):
        """Build one window as a run does; what it raises is part of the outcome."""
        topic = self.topic = self._broker.open(now)
        published = self._outcome.built.get(window)
        try:
            built = self._plan(window, now, published, allow_gap)
        except WindowOpenError:
            self._outcome.waits += 1
        except SourceReplacedError:
            self._outcome.replaced += 1
        except TrainFeedError as error:
            self._fail(window, now, error, closing=allow_gap is not None)
        else:
            self._keep(window, published, built)
        finally:
            topic.close()
        self._outcome.work["questions"] += getattr(topic, "num_questions", 0)
        self._outcome.work["records"] += getattr(topic, "num_records", 0)
        self._outcome.work["builds"] += 1

    def close(self, window, now):
        """Build a window that has no version yet, in the end with the gap that it takes."""
        if window not in self._outcome.built:
            self.attempt(window, now)
        if window not in self._outcome.built:
            self.attempt(window, now, allow_gap="it is gone")

    def _plan(self, window, now, published, allow_gap):
        start, end = self._history.interval(window)
        interval = Interval(_time(start), _time(end), f"w{window:02d}")
        clock = {"clock_ms": now} if _TAKES_CLOCK else {}
        with _topic_inputs.open_topics(
            self._project.spec, self._env, self._folder, interval, **clock
        ) as windows:
            source = _topic_inputs.TopicInputs(self._project.spec, self._env, windows)
            current = _manifest(published)
            if published is not None:
                return self._again(source, current, published)
            self._look(windows, interval, now)
            inputs, gaps = source.without_losses(None, allow_gap)
            self._compare(interval, inputs, gaps)
            because = getattr(source, "empty_because", lambda *_: {})(inputs, allow_gap)
            return self._built(windows[0], window, now, inputs, {"gaps": gaps, "why": because})

    def _look(self, windows, interval, now):
        """Look at the topics before a window is planned that has no version."""

    def _compare(self, interval, inputs, gaps):
        """Compare a plan with the published windows beside it, as the planner does."""
        schedule = self._project.spec.schedule_model()
        require_neighbours_agree(self._folder, schedule, interval, inputs, gaps)

    def published(self):
        """Return the versions whose manifests are there, by window."""
        return self._outcome.built

    def ending_at(self, _, __, at):
        """Return what the manifest of the window that ends at a time has of the topic, or None."""
        return self._recorded(1, at)

    def starting_at(self, _, __, at):
        """Return the same of the window that starts at a time."""
        return self._recorded(0, at)

    def _recorded(self, side, at):
        for window, built in self.published().items():
            times = [_time(each) for each in self._history.interval(window)]
            if times[side] == at:
                name = f"w{window:02d}/g0001"
                return Neighbour(name, built.inputs, built.gaps, *map(format_time, times))
        return None

    def _again(self, source, current, published):
        inputs = source.inputs(current)
        if _topic_inputs.replaced_inputs(current, inputs):
            raise SourceReplacedError("of another topic")
        return {s: i.fingerprint() for s, i in inputs.items()} == {
            s: i.fingerprint() for s, i in published.inputs.items()
        }

    def _built(self, opened, window, now, inputs, notes):
        topic = opened.topic
        ranges = {planned.partition: (planned.start, planned.end) for planned in inputs.values()}
        starts = {p: (b.offset, b.log_start) for p, b in opened.start.partitions.items()}
        read, counted = {}, {}
        for partition, span in ranges.items():
            read[partition], stamps = self._broker.read(topic, partition, *span)
            counted[partition] = Lateness()
            counted[partition].count(stamps, *self._history.interval(window))
        return Built(
            window=window,
            now=getattr(topic, "now", now),
            uuid=self._history.incarnation(now).uuid,
            ranges=ranges,
            starts=starts,
            read=read,
            gaps=notes["gaps"],
            counted=counted,
            inputs=dict(inputs),
            empty_because=dict(notes["why"]),
        )

    def _keep(self, window, published, built):
        if published is None:
            self._outcome.built[window] = built
        elif built is not True:
            self._outcome.unlike.append(f"window {window} is planned otherwise by a retry")

    def _fail(self, window, now, error, *, closing):
        """Take down a stop that says what it misses; any other failure is none that is expected."""
        message = f"{type(error).__name__}: {error}"
        named = [tuple(map(int, match)) for match in _NAMED.findall(message)]
        # An offset that nobody can name: of a topic that is gone, or of no record at all.
        says = any(start < end for _, start, end in named) or any(
            words in message for words in ("created again", "EmptyUnprovenError")
        )
        if closing or not says:
            self._outcome.errors.append(f"window {window}: {message}")
        else:
            uuid = self._history.incarnation(now).uuid
            self._outcome.stops.append(Stop(window, now, uuid, message))


def _nothing(_):
    """Sync no file."""


def _manifest(published):
    """Return what of the published manifest planning looks at."""
    if published is None:
        return None
    inputs = {source: planned.model_dump() for source, planned in published.inputs.items()}
    return SimpleNamespace(inputs=inputs, gaps=published.gaps)


def _time(milliseconds):
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
