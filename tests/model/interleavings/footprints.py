"""What the actors of many runs touched: only calls that two of them could notice need a stop.

A call on a file that no other actor changes commutes with all calls of the others: to stop before
it would give the same states again. What is shared is learnt: an exploration begins with what some
runs touched, and is done again when its own runs touched more.
"""

from __future__ import annotations

from tests.model.interleavings.trees import plain_name

__all__ = ["Footprints"]

_LISTS = {"listdir", "scandir", "rmdir"}
_IN_PRIVATE = ("_staging/", "_trash/")


class Footprints:
    """The names that actors looked at and changed, over all runs of a scenario."""

    def __init__(self):
        self._looks: dict[str, set[int]] = {}
        self._changes: dict[str, set[int]] = {}
        self._trees: dict[str, set[int]] = {}
        self._shared: frozenset[str] = frozenset()
        self._shared_trees: tuple[str, ...] = ()

    def add(self, number, call):
        """Take in a call that an actor has made."""
        for name in _names(call):
            (self._changes if call.changes else self._looks).setdefault(name, set()).add(number)
            if call.name in _LISTS:
                self._looks.setdefault(f"{name}/", set()).add(number)
            if call.changes and call.name != "flock":
                self._changes.setdefault(f"{_above(name)}/", set()).add(number)
            if call.name in {"rename", "replace"}:
                self._trees.setdefault(f"{name}/", set()).add(number)

    def learn(self):
        """Fix what is shared by what was touched up to now; return whether it is more."""
        shared = {
            name
            for name, changing in self._changes.items()
            if len(changing | self._looks.get(name, set())) > 1
        }
        trees = {name for name, movers in self._trees.items() if self._is_entered(name, movers)}
        before = (self._shared, self._shared_trees)
        self._shared = self._shared | shared
        self._shared_trees = tuple(sorted({*self._shared_trees, *trees}))
        return (self._shared, self._shared_trees) != before

    def _is_entered(self, tree, movers):
        for touched in (self._looks, self._changes):
            for name, numbers in touched.items():
                if name.startswith(tree) and numbers - movers:
                    return True
        return False

    def is_shared(self, call):
        """Whether another actor could notice the call, or changes what it sees."""
        for name in _names(call):
            if name in self._shared or name.startswith(self._shared_trees or ("\0",)):
                return True
            if call.name in _LISTS and f"{name}/" in self._shared:
                return True
            if call.changes and f"{_above(name)}/" in self._shared:
                return True
        return False

    def is_stop(self, call):
        """Whether an actor stops before the call: it is shared, or a change after a crash."""
        return self.is_shared(call) or (call.changes and bool(_names(call)) and _is_kept(call))


def _above(name):
    return name.rpartition("/")[0]


def _names(call):
    """Return the names of a call that other runs would have as well."""
    if call.name == "link":
        return (plain_name(call.paths[-1]),)
    return tuple(plain_name(path) for path in call.paths if not path.endswith(".tmp"))


def _is_kept(call):
    return not any(part in f"/{path}" for path in call.paths for part in _IN_PRIVATE)
