"""Stamps that a process keeps stay within a number of bytes."""

import numpy as np

from trainfeed.sources.recorded import FileKey, FileStamps, KeptStamps

ROWS = 10


def key(name):
    return FileKey("uuid", name, 1, 1)


def stamps():
    column = np.arange(ROWS)
    return FileStamps.of([(column, column)])


def test_the_file_that_was_used_longest_ago_goes_when_there_is_no_room():
    kept, loaded = KeptStamps(2 * stamps().num_bytes), []

    def ask(name):
        def load():
            loaded.append(name)
            return stamps()

        return kept.get(key(name), load)

    for name in ("a", "b", "a", "c"):
        ask(name)
    assert loaded == ["a", "b", "c"]
    ask("a")
    assert loaded == ["a", "b", "c"]
    ask("b")
    assert loaded == ["a", "b", "c", "b"]


def test_a_file_that_is_larger_than_the_room_is_kept_alone():
    kept = KeptStamps(1)
    first = kept.get(key("a"), stamps)
    assert kept.get(key("a"), lambda: None) is first
