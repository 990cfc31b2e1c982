"""Random histories of builds, pauses, deaths and trainings, against a scheduler that loses events.

The model is Airflow at its worst: events of a paused DAG are dropped, a pause may fall between the
question and the event, a task may die before its event is sent, runs start in any order. In the end
every published version has been trained on, and no history needs more events than it has to.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from operators.training_starts import Trainings
from trainfeed.core.config import Environment
from trainfeed.specification import load_spec
from trainfeed.versions import DatasetFolder, TrainingMarks, Untrained
from trainfeed.versions import training_marks as _training_marks

SPEC = """\
name: clicks
schedule: "@daily"
start: 2026-01-01
end: 2026-01-09
source: {kafka: {topic: clicks}}
preprocess: {function: "preprocess:clicks"}
schema: {label: {dtype: int64}}
train: {entry: "train:main"}
"""
DAYS = st.integers(1, 6).map(lambda day: f"2026-01-0{day}")


class Scheduler(RuleBasedStateMachine):
    """Builds and trainings of one data set below a scheduler that drops events."""

    def __init__(self):
        super().__init__()
        self.home = Path(tempfile.mkdtemp(prefix="trainfeed-model-"))
        (self.home / "clicks").mkdir()
        (self.home / "clicks" / "dataset.yaml").write_text(SPEC)
        for module in ("preprocess", "train"):
            (self.home / "clicks" / f"{module}.py").touch()
        self.spec = load_spec(self.home / "clicks")
        root = self.home / "root"
        self.env = Environment(
            root=str(root), landing="", work="", kafka={}, datasets=self.home, logs={}
        )
        self.folder = DatasetFolder(root, "clicks")
        self.marks = TrainingMarks(self.folder)
        self.paused = False
        self.events = []
        self.caught_up = Counter()
        self.trained = set()
        self.declined = set()
        self.runs = 0

    def get_dag(self, _):
        return SimpleNamespace(is_paused=self.paused)

    def announce(self, interval, run):
        context = {
            "params": {"catch_up": "missed"},
            "ti": self,
            "dag_run": SimpleNamespace(run_id=run),
        }
        generation = self.folder.current_generation(interval)
        task = Trainings(self.spec, self.env, "train.clicks", context)
        _, others = task.announce(interval, f"g{generation:04d}")
        return others

    def build(self, interval, *, again, dies=False, races=False):
        self.runs += 1
        self.marks.accept(Untrained(interval, self.publish(interval, again=again)))
        self.declined.discard(interval)
        others = self.announce(interval, f"run {self.runs}")
        if dies:
            others = self.announce(interval, f"run {self.runs}")
        assert not self.declined.intersection(others)
        sent = {interval, *others}
        if not self.paused and not races:
            self.events += sorted(sent)
            self.caught_up.update((each, self.folder.current_generation(each)) for each in others)

    def publish(self, interval, *, again, wanted=True):
        """Publish a version, unless there is one and none is wanted; return its number."""
        self.marks.begin(interval)
        newest = self.folder.last_generation(interval)
        number = newest + (again or not newest)
        if not wanted:
            self.marks.decline(Untrained(interval, number), "why", f"run {self.runs}")
        path = self.folder.version(interval, number)
        path.mkdir(parents=True, exist_ok=True)
        (path / "MANIFEST.json").touch()
        return number

    @rule(interval=DAYS, again=st.booleans())
    def publishes_and_wants_no_training(self, interval, again):
        self.runs += 1
        self.publish(interval, again=again, wanted=False)
        self.declined.add(interval)

    @rule(interval=DAYS, again=st.booleans(), dies=st.booleans(), races=st.booleans())
    def publishes(self, interval, again, dies, races):
        self.build(interval, again=again, dies=dies, races=races)

    @rule()
    def is_switched(self):
        self.paused = not self.paused

    @rule(data=st.data())
    def a_training_starts(self, data):
        if self.events:
            self.start(data.draw(st.integers(0, len(self.events) - 1)))

    def start(self, number):
        interval = self.events.pop(number)
        self.marks.see(interval)
        self.declined.discard(interval)
        self.trained.add((interval, self.folder.current_generation(interval)))

    @invariant()
    def nothing_is_caught_up_twice_within_the_hour(self):
        assert all(count == 1 for count in self.caught_up.values())

    def teardown(self):
        try:
            self.paused = False
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(_training_marks, "ANNOUNCED_FOR", timedelta(0))
                self.build("2026-01-01", again=False)
            while self.events:
                self.start(0)
            published = {
                (name, self.folder.current_generation(name))
                for name in self.folder.intervals()
                if name not in self.declined
            }
            assert published <= self.trained
        finally:
            shutil.rmtree(self.home)


Scheduler.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestNoTrainingIsLost = Scheduler.TestCase
