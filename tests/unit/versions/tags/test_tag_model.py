"""Random changes of tags and versions, against a dictionary of what each tag names."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.unit.versions.tags.conftest import DAYS, Clicks
from tests.unit.versions.tags.test_tags import decided
from trainfeed.errors import ConflictError, NotFoundError, WindowIncompleteError
from trainfeed.versions.tag import TaggedData, apply_change, move_tag, propose_tag, untag
from trainfeed.versions.tag_files import current_tag, tag_history, tagged_versions, tags_naming

NAMES = ("prod", "next")
SPAN = DAYS[:4]
days = st.integers(0, len(SPAN) - 1)
names = st.sampled_from(NAMES)


class Tags(RuleBasedStateMachine):
    """Versions are published, withdrawn and removed; tags are given, moved and removed."""

    def __init__(self):
        super().__init__()
        self.place = tempfile.TemporaryDirectory()
        self.clicks = Clicks(Path(self.place.name) / "root")
        self.folder = self.clicks.folder
        self.last = dict.fromkeys(SPAN, 0)
        self.there = {day: set() for day in SPAN}
        self.tags = {}
        self.changes = dict.fromkeys(NAMES, 0)

    def teardown(self):
        self.place.cleanup()

    @rule(day=days)
    def publish(self, day):
        name = SPAN[day]
        self.last[name] += 1
        self.clicks.publish(name, generation=self.last[name])
        self.there[name].add(self.last[name])

    @rule(day=days, removes=st.booleans())
    def hide(self, day, removes):
        name = SPAN[day]
        if self.there[name]:
            number = max(self.there[name])
            (self.clicks.remove if removes else self.clicks.withdraw)(name, number)
            self.there[name].remove(number)

    @rule(tag=names, first=days, length=st.integers(1, 4), allow=st.booleans())
    def give(self, tag, first, length, allow):
        chosen = SPAN[first : first + length]
        wanted = {day: max(self.there[day]) for day in chosen if self.there[day]}
        asked = f"{chosen[0]}/{chosen[-1]}" if len(chosen) > 1 else chosen[0]

        def act():
            return apply_change(
                self.folder,
                propose_tag(self.folder, asked, tag, decided(), allow_missing=allow),
            )

        if not wanted:
            with pytest.raises((NotFoundError, WindowIncompleteError)):
                act()
        elif len(wanted) < len(chosen) and not allow:
            with pytest.raises(WindowIncompleteError):
                act()
        else:
            self.changes[tag] += act()[1]
            self.tags[tag] = wanted

    @rule(tag=names)
    def untag(self, tag):
        if self.changes[tag] == 0:
            with pytest.raises(NotFoundError):
                untag(self.folder, tag, decided())
            return
        self.changes[tag] += untag(self.folder, tag, decided())[1]
        self.tags.pop(tag, None)

    @rule(tag=names, day=days)
    def move(self, tag, day):
        name = SPAN[day]
        if name not in self.tags.get(tag, {}):
            with pytest.raises((NotFoundError, ConflictError)):
                move_tag(self.folder, tag, {name: 1}, decided())
            return
        older = self.there[name]
        others = {k: v for k, v in self.tags[tag].items() if k != name}
        target = min(older, default=None)
        # A version that is gone is written again in no change, so others of the tag must be there.
        if all(number in self.there[each] for each, number in others.items()):
            self.changes[tag] += move_tag(self.folder, tag, {name: target}, decided())[1]
            self.tags[tag] = others if target is None else others | {name: target}

    @invariant()
    def a_tag_names_what_it_was_given_or_cannot_be_opened(self):
        for tag in NAMES:
            wanted = self.tags.get(tag)
            if wanted is None:
                with pytest.raises(NotFoundError):
                    TaggedData(self.folder.root, f"clicks@{tag}")
                continue
            assert current_tag(self.folder, tag).generations == wanted
            data = TaggedData(self.folder.root, f"clicks@{tag}")
            if all(number in self.there[day] for day, number in wanted.items()):
                found = data.cover(None).versions
                assert {v.path.parent.name: v.manifest.generation for v in found} == wanted
            else:
                with pytest.raises(ConflictError):
                    data.cover(None)

    @invariant()
    def histories_are_complete_and_upkeep_knows_every_tag(self):
        for tag in NAMES:
            assert len(tag_history(self.folder, tag)) == self.changes[tag]
        pairs = {pair for wanted in self.tags.values() for pair in wanted.items()}
        assert tagged_versions(self.folder) == pairs
        for day, number in pairs:
            named = tuple(tag for tag in sorted(self.tags) if self.tags[tag].get(day) == number)
            assert tags_naming(self.folder, day, number) == (named, ())


TestTags = Tags.TestCase
TestTags.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)
