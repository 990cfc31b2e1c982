"""The sweep of every kind: hide, look again, then delete or show again, in this order."""

from contextlib import contextmanager
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from trainfeed.errors import StorageError
from trainfeed.upkeep.retention import Expired, Item
from trainfeed.upkeep.retention.context import Kind

ITEMS = [Expired(Item("fake", name, 1, datetime.now(UTC), ()), "a rule") for name in "abcd"]


class Fake(Kind[Item]):
    """A kind that writes down what is done; ``judged`` has what the second look says of an item."""

    name = "fake"

    def __init__(self, judged=None, *, hides=True):
        self.judged = judged
        self.hides = hides
        self.done = []

    def find(self, _context):
        return iter(ITEMS)

    @contextmanager
    def alone(self, _context, first):
        self.done.append(f"lock {first.item.name}")
        yield
        self.done.append("unlock")

    def hide(self, _context, each):
        self.done.append(f"hide {each.item.name}")
        return None if self.hides or each.item.name != "b" else "it is read"

    def look(self, _context):
        self.done.append("look")
        if self.judged is None:
            raise StorageError("the store is away")
        return lambda each: self.judged.get(each.item.name, each)

    def show(self, _context, item):
        self.done.append(f"show {item.name}")

    def delete(self, _context, each):
        self.done.append(f"delete {each.item.name}")
        return "a part stays" if each.item.name == "d" else None


def swept(kind, items=ITEMS, **context):
    return [(each.item.name, each.why) for each in kind.remove(SimpleNamespace(**context), items)]


def test_all_are_hidden_before_the_look_and_what_is_wanted_is_shown_again():
    kind = Fake({"a": "a tag names it", "c": None})
    assert swept(kind) == [("a", "a tag names it"), ("d", "a part stays")]
    hidden = ["hide a", "hide b", "hide c", "hide d"]
    after = ["show a", "delete b", "delete d"]
    assert kind.done == ["lock a", *hidden, "look", *after, "unlock"]


def test_what_cannot_be_hidden_stays_untouched():
    kind = Fake({"a": None, "c": None, "d": None}, hides=False)
    assert swept(kind) == [("b", "it is read")]
    assert not {"show b", "delete b"}.intersection(kind.done)


def test_a_look_that_fails_shows_everything_again_the_last_first():
    kind = Fake(hides=False)
    with pytest.raises(StorageError, match="away"):
        swept(kind)
    assert kind.done[-4:] == ["look", "show d", "show c", "show a"]


@pytest.mark.parametrize("method", ["find", "delete"])
def test_a_kind_that_does_not_say_how_is_none(method):
    members = {name: getattr(Fake, name) for name in ("find", "delete") if name != method}
    with pytest.raises(TypeError, match=f"abstract method '?{method}"):
        type("Half", (Kind,), members)()


def test_nothing_is_done_for_no_items():
    kind = Fake()
    assert swept(kind, []) == []
    assert kind.done == []


def test_a_kind_that_moves_files_has_a_folder_for_them_as_long_as_its_sweep(tmp_path):
    aside, seen = tmp_path / "aside", []

    class Moving(Fake):
        moves = True

        def delete(self, _context, _each):
            seen.append(aside.is_dir())

    assert swept(Moving({}), aside=aside) == []
    assert seen == [True] * 4
    assert not aside.exists()
