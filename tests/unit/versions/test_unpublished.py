"""The record of the last attempt that did not publish its interval."""

import json
import stat
from dataclasses import replace

import pytest

from trainfeed.errors import FormatError
from trainfeed.versions import (
    DatasetFolder,
    Unpublished,
    lift_unpublished,
    read_unpublished,
    write_unpublished,
)

ENDED = Unpublished(
    interval="2026-01-01",
    since="2026-01-02T00:00:00Z",
    work="check",
    plan="0123456789abcdef-g0001",
    outcome="failed",
    error="GateError",
    why="clicks/2026-01-01 is not published: records: 3, at least 5 are expected",
)


@pytest.fixture
def folder(tmp_path):
    return DatasetFolder(tmp_path, "clicks")


def test_a_record_is_read_as_it_was_written_until_it_is_removed(folder):
    assert read_unpublished(folder, ENDED.interval) is None
    assert not lift_unpublished(folder, ENDED.interval)
    assert write_unpublished(folder, ENDED) == ENDED
    assert read_unpublished(folder, ENDED.interval) == ENDED
    assert lift_unpublished(folder, ENDED.interval)
    assert read_unpublished(folder, ENDED.interval) is None


def test_an_equal_end_keeps_the_time_of_the_first_and_another_replaces_it(folder):
    write_unpublished(folder, ENDED)
    later = replace(ENDED, since="2026-01-03T00:00:00Z")
    assert write_unpublished(folder, later) == ENDED
    other = replace(later, why="clicks/2026-01-01 is not published: share of labels")
    assert write_unpublished(folder, other) == other
    assert read_unpublished(folder, ENDED.interval) == other


def test_a_record_may_quote_a_source_record_and_is_closed_to_other_accounts(folder):
    write_unpublished(folder, ENDED)
    mode = stat.S_IMODE(folder.unpublished(ENDED.interval).stat().st_mode)
    assert mode & 0o007 == 0


@pytest.mark.parametrize(
    "change",
    [
        {"interval": "2026-01-02"},
        {"outcome": "fine"},
        {"since": "yesterday"},
        {"why": None},
        {"plan": 3},
    ],
)
def test_a_damaged_record_is_refused_by_name_and_replaced_by_the_next(folder, change):
    write_unpublished(folder, ENDED)
    path = folder.unpublished(ENDED.interval)
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **change}))
    with pytest.raises(FormatError, match=r"remove the file, or.*unpublished/2026-01-01\.json"):
        read_unpublished(folder, ENDED.interval)
    assert write_unpublished(folder, ENDED) == ENDED
    assert read_unpublished(folder, ENDED.interval) == ENDED


def test_keys_of_later_versions_are_ignored(folder):
    write_unpublished(folder, ENDED)
    path = folder.unpublished(ENDED.interval)
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "later": 1}))
    assert read_unpublished(folder, ENDED.interval) == ENDED
