"""Random lives of a data set under random rules, against what a person would keep by hand.

Invariants: nothing that is needed goes; what a rule lets go goes; a dry run names what the run
removes; a second run removes nothing; no number is used twice.
"""

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.support.roots import write_sealed
from tests.unit.pipeline.clicks import CODE, SPEC
from tests.unit.versions.tags.conftest import DAYS, Clicks
from tests.unit.versions.tags.test_tags import decided
from trainfeed.core.config import Environment
from trainfeed.errors import ConflictError
from trainfeed.specification import RetentionSpec, load_spec
from trainfeed.upkeep.retention import KINDS, Context, prune, retire
from trainfeed.versions.layout import generation_name
from trainfeed.versions.lease import hold_versions
from trainfeed.versions.retire import retirement_of
from trainfeed.versions.tag import apply_change, propose_tag, untag

SPAN = DAYS[:5]
days = st.sampled_from(SPAN)
HOW = st.sampled_from(["tag", "lease", "training"])
OF_VERSIONS = [kind for kind in KINDS if kind.name in {"trash", "intervals", "generations"}]


class Lives(RuleBasedStateMachine):
    """Versions are published, withdrawn, tagged, leased and trained on, and pruned by any rule."""

    def __init__(self):
        super().__init__()
        self.place = tempfile.TemporaryDirectory()
        root = Path(self.place.name)
        self.clicks = Clicks(root / "root")
        self.folder = self.clicks.folder
        (root / "datasets" / "clicks").mkdir(parents=True)
        (root / "datasets" / "clicks" / "dataset.yaml").write_text(
            SPEC.replace("2024-03", "2026-01")
        )
        (root / "datasets" / "clicks" / "preprocess.py").write_text(CODE)
        places = {name: str(root / name) for name in ("root", "landing", "work")}
        self.env = Environment(**places, kafka={}, datasets=root / "datasets")
        self.spec = load_spec(self.env.datasets / "clicks")
        self.last = dict.fromkeys(SPAN, 0)
        self.there = {day: set() for day in SPAN}
        self.hidden = {day: set() for day in SPAN}
        self.tagged, self.leases, self.jobs = {}, {}, {}

    def teardown(self):
        for lease, _ in self.leases.values():
            lease.release()
        self.place.cleanup()

    @initialize(numbers=st.lists(st.integers(0, 3), min_size=len(SPAN), max_size=len(SPAN)))
    def begin(self, numbers):
        for day, number in zip(SPAN, numbers, strict=True):
            for _ in range(number):
                self.publish(day)

    @rule(day=days)
    def publish(self, day):
        self.last[day] += 1
        assert self.folder.last_generation(day) == self.last[day] - 1
        self.clicks.publish(day, generation=self.last[day])
        self.there[day].add(self.last[day])

    @rule(day=days)
    def withdraw(self, day):
        if self.readable(day):
            number = max(self.readable(day))
            self.clicks.withdraw(day, number)
            self.hidden[day].add(number)

    @rule(uses=st.lists(st.tuples(days, HOW), min_size=1, max_size=4))
    def use(self, uses):
        """Let a tag, a lease or a training need the oldest version of a day."""
        for day, how in uses:
            if self.readable(day):
                number = min(self.readable(day))
                {"tag": self.tag, "lease": self.lease, "training": self.train}[how](day, number)

    def tag(self, day, number):
        asked = f"{day}/{generation_name(number)}"
        apply_change(self.folder, propose_tag(self.folder, asked, "prod", decided()))
        self.tagged = {day: number}

    def lease(self, day, number):
        if day not in self.leases:
            self.leases[day] = hold_versions(self.folder, [(day, number)], "a test"), number

    def train(self, day, number):
        if day not in self.jobs:
            job = self.folder.training(day, f"job-{day}")
            job.mkdir(parents=True, exist_ok=True)
            (job / "result.json").unlink(missing_ok=True)
            versions = [{"interval": day, "generation": generation_name(number)}]
            write_sealed(job / "job.json", {"versions": versions})
            self.jobs[day] = job, number

    @rule(day=days)
    def end_uses(self, day):
        if self.tagged:
            untag(self.folder, "prod", decided())
            self.tagged = {}
        if day in self.leases:
            self.leases.pop(day)[0].release()
        if day in self.jobs:
            (self.jobs.pop(day)[0] / "result.json").write_bytes(b"{}")

    @rule(keep=st.none() | st.integers(1, 3), generations=st.integers(1, 3))
    def prune(self, keep, generations):
        rules = RetentionSpec(keep_intervals=keep, keep_generations=generations)
        left = self.left_by(keep, generations)
        would = prune(self.context(rules), OF_VERSIONS, dry_run=True)
        done = prune(self.context(rules), OF_VERSIONS)
        assert done == would
        assert prune(self.context(rules), OF_VERSIONS).expired == ()
        self.there = left

    @rule(first=st.integers(0, 4), length=st.integers(0, 2))
    def retire(self, first, length):
        asked = SPAN[first : first + length + 1]
        published = [day for day in SPAN if self.there[day]]
        newest = max(published, default="")
        is_needed = any(day >= newest or self.used(day) for day in asked if self.to_retire(day))
        try:
            retire(self.context(RetentionSpec()), f"{asked[0]}/{asked[-1]}", "a test")
        except ConflictError:
            assert is_needed
        else:
            assert not is_needed
            for day in asked:
                self.there[day] = set()
                assert retirement_of(self.folder, day) is not None

    @invariant()
    def what_is_there_is_what_was_kept(self):
        for day in SPAN:
            found = {
                number
                for number in range(1, self.last[day] + 1)
                if self.folder.version(day, number).is_dir()
                and not self.folder.is_removed(day, number)
            }
            assert found == self.there[day], day
            assert set(self.folder.generations(day)) == self.readable(day)

    def context(self, rules):
        spec = self.spec.model_copy(update={"retention": rules})
        return Context.of(spec, self.env)

    def readable(self, day):
        return self.there[day] - self.hidden[day]

    def to_retire(self, day):
        return self.there[day] or retirement_of(self.folder, day) is None

    def used(self, day):
        """The generations of a day that a tag, a lease or a training needs."""
        found = {self.tagged.get(day)}
        found |= {each[day][1] for each in (self.leases, self.jobs) if day in each}
        return found & self.there[day]

    def left_by(self, keep, generations):
        """What a person would keep: the newest intervals and generations, and what is used."""
        published = [day for day in SPAN if self.there[day]]
        newest = published[-(keep or len(SPAN)) :]
        left = {}
        for day in SPAN:
            if day not in newest and not self.used(day):
                left[day] = set()
                continue
            numbers = sorted(self.readable(day))
            kept = (
                set(numbers[-generations:]) | self.used(day) | (self.there[day] & self.hidden[day])
            )
            left[day] = kept & self.there[day]
        return left


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=50, stateful_step_count=20, deadline=None)
