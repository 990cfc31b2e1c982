"""Random lives of a model under random rules, against what a person would keep by hand."""

import tempfile
from pathlib import Path
from types import SimpleNamespace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.unit.pipeline.clicks import CODE, SPEC
from tests.unit.upkeep.retention.models.conftest import TRAIN, Clicker, whole
from trainfeed.core.config import Environment
from trainfeed.errors import NotFoundError
from trainfeed.specification import RetentionRule, RetentionSpec, load_spec
from trainfeed.training.models import PROD, current, hold_model, promote, rollback
from trainfeed.versions import init_root


class LivesOfModels(RuleBasedStateMachine):
    """Versions are made, promoted, rolled back, held and pruned by any rule."""

    def __init__(self):
        super().__init__()
        self.place = tempfile.TemporaryDirectory()
        root = Path(self.place.name)
        init_root(root / "root")
        home = root / "datasets" / "clicks"
        home.mkdir(parents=True)
        for name, text in (("dataset.yaml", SPEC + TRAIN), ("preprocess.py", CODE)):
            (home / name).write_text(text)
        (home / "train.py").write_text("def main(job): ...\n")
        places = {name: str(root / name) for name in ("root", "landing", "work")}
        env = Environment(**places, kafka={}, datasets=root / "datasets")
        self.spec = load_spec(home)
        self.project = SimpleNamespace(path=root, env=env, spec=self.spec)
        self.clicker = Clicker(self.project)
        self.there, self.last, self.stack, self.held = set(), 0, [], {}

    def teardown(self):
        for hold in self.held.values():
            hold.__exit__(None, None, None)
        self.place.cleanup()

    @rule()
    def make(self):
        self.last += 1
        assert self.clicker.make(self.last) == self.last
        self.there.add(self.last)

    @precondition(lambda self: self.last)
    @rule(data=st.data())
    def promote(self, data):
        number = data.draw(st.integers(1, self.last))
        try:
            _, is_new = promote(self.clicker.folder, PROD, number, "a test")
        except NotFoundError:
            assert number not in self.there
            return
        assert number in self.there
        if is_new:
            self.stack.append(number)

    @rule()
    def rollback(self):
        try:
            change, _ = rollback(self.clicker.folder, "a test")
        except NotFoundError:
            assert len(self.stack) < 2 or self.stack[-2] not in self.there
            return
        self.stack.pop()
        assert change.version == f"v{self.stack[-1]:04d}"

    @precondition(lambda self: self.there)
    @rule(data=st.data())
    def hold(self, data):
        number = data.draw(st.sampled_from(sorted(self.there)))
        if number in self.held:
            self.held.pop(number).__exit__(None, None, None)
        else:
            self.held[number] = hold_model(self.clicker.folder, number)
            self.held[number].__enter__()

    @rule(keep=st.integers(1, 3))
    def prune(self, keep):
        rules = RetentionSpec(models=RetentionRule(keep=keep))
        self.project.spec = self.spec.model_copy(update={"retention": rules})
        left = set(sorted(self.there)[-keep:]) | set(self.stack[-2:]) | set(self.held)
        would = self.clicker.prune(dry_run=True)
        assert self.clicker.prune() == would
        assert self.clicker.prune().expired == ()
        self.there &= left

    @invariant()
    def what_is_there_is_what_was_kept(self):
        assert set(whole(self.clicker.folder)) == self.there
        gone = set(range(1, self.last + 1)) - self.there
        assert set(self.clicker.folder.removed_versions()) == gone
        if self.stack:
            assert current(self.clicker.folder, PROD).manifest.version == self.stack[-1]


TestLivesOfModels = LivesOfModels.TestCase
TestLivesOfModels.settings = settings(max_examples=20, stateful_step_count=15, deadline=None)
