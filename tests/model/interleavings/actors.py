"""What people and tasks do to one interval at the same time: each a call of the code under test."""

from __future__ import annotations

from tests.model.interleavings.roots import INTERVAL
from trainfeed.core.accounts import Decision
from trainfeed.errors import TrainFeedError
from trainfeed.pipeline.publish import publish
from trainfeed.readers import open_dataset
from trainfeed.upkeep.retention import Context, prune
from trainfeed.upkeep.withdrawal import Maker, restore, withdraw
from trainfeed.versions.tag import apply_change, propose_tag

__all__ = ["Actors"]

# Generation → label of its samples, which tells from which one a reader has read.
LABELS = {1: 1, 2: 2, 3: 2}


class Actors:
    """The calls, over the data set of an exploration.

    Args:
        ground: The data set.
    """

    def __init__(self, ground):
        self._ground = ground
        self._env = ground.project.env
        self._folder = ground.project.folder

    def publish(self):
        """Publish generation 3, which has the content of generation 2."""
        return publish(self._ground.same)

    def withdraw(self, generation=2, who="ada"):
        maker = Maker(who, f"account of {who}", "the label is wrong")
        return withdraw(self._env, "clicks", INTERVAL, generation, maker)

    def restore(self, generation=2, who="grace"):
        maker = Maker(who, f"account of {who}", "the label is right after all")
        return restore(self._env, "clicks", INTERVAL, generation, maker)

    def tag(self, asked=INTERVAL, who="ada"):
        decision = Decision.now("for production", who=who)
        return apply_change(self._folder, propose_tag(self._folder, asked, "prod", decision))

    def prune(self):
        return prune(Context.of(self._ground.project.spec, self._env, who="housekeeping"))

    def read(self):
        """Read what readers get now: all samples of one generation, or a named error."""
        with self._opened() as reader:
            return self._samples(reader)

    def read_leased(self):
        """The same with a lease: once it is taken, nothing disturbs the reader."""
        with self._opened(lease=True) as reader:
            try:
                return self._samples(reader)
            except TrainFeedError as error:
                raise AssertionError(f"a leased version cannot be read: {error}") from error

    def read_tag(self):
        """Read what the tag names."""
        with open_dataset("clicks@prod", split="train", root=self._env.root) as reader:
            return self._samples(reader)

    def _opened(self, **options):
        return open_dataset(
            "clicks", interval=INTERVAL, split="train", root=self._env.root, **options
        )

    @staticmethod
    def _samples(reader):
        (version,) = reader.versions
        samples = list(reader.reader()())
        generation = version.manifest.generation
        expected = version.num_samples("train")
        assert len(samples) == expected, f"{len(samples)} of {expected} samples"
        assert {int(each["label"]) for each in samples} <= {LABELS[generation]}
        return generation
