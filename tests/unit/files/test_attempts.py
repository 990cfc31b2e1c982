"""A killed attempt cannot report its end: the next attempt reports what is known about it."""

import json
import logging
import os
import signal

import pytest

from tests.unit.forks import in_a_fork
from tests.unit.processes import oddly_named
from trainfeed.core import memory_group
from trainfeed.core.process_ties import start_ticks
from trainfeed.files.attempts import attempt
from trainfeed.files.stores import Location

WANT = "the kernel has ended a process of this control group for want of memory"


@pytest.fixture
def counter(tmp_path, monkeypatch):
    """The file in which a kernel of the second version counts."""
    (tmp_path / "self").write_text("0::/\n")
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.events").write_text("oom_kill 7\n")
    monkeypatch.setattr(memory_group, "_GROUPS", tmp_path / "self")
    monkeypatch.setattr(memory_group, "_ROOT", tmp_path)
    return tmp_path / "memory.events"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "marks" / "mark.json"


def begin(path):
    return attempt(Location.parse(str(path)), "convert-3 of clicks/2024-03-01", "buy memory")


def be_killed(path):
    def act():
        with begin(path):
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_a_fork(act) == -signal.SIGKILL
    return json.loads(path.read_bytes())


def said(caplog, path, level=logging.INFO):
    """What the next attempt says."""
    with caplog.at_level(level, "trainfeed"), begin(path):
        assert path.exists()
    assert not path.exists()
    return caplog.text


def test_an_attempt_that_was_killed_for_want_of_memory_is_told_by_the_next(path, counter, caplog):
    pid = be_killed(path)["pid"]
    counter.write_text("oom_kill 8\n")
    text = said(caplog, path, logging.WARNING)
    assert "the last attempt at convert-3 of clicks/2024-03-01, begun at 20" in text
    assert f"by process {pid}, was killed: since then {WANT}" in text
    assert text.rstrip().endswith("buy memory")


def test_a_kill_that_the_kernel_did_not_count_is_not_for_want_of_memory(path, counter, caplog):
    be_killed(path)
    text = said(caplog, path, logging.WARNING)
    assert "was killed: not by the kernel for want of memory" in text
    assert "buy memory" not in text


def test_where_the_group_is_another_nobody_has_counted(path, counter, caplog):
    be_killed(path)
    # A container that was started again has a group of its own, which counts from 0.
    counter.parent.joinpath("again").mkdir()
    for name in ("memory.max", "memory.events"):
        (counter.parent / name).rename(counter.parent / "again" / name)
    (counter.parent / "self").write_text("0::/again\n")
    text = said(caplog, path, logging.WARNING)
    assert "probably by the kernel for want of memory, but there is no counter here; buy" in text


def test_an_attempt_on_another_host_is_told_with_the_host(path, counter, caplog):
    mark = be_killed(path)
    path.write_text(json.dumps({**mark, "host": "node-7 (another boot)"}))
    counter.write_text("oom_kill 8\n")
    text = said(caplog, path, logging.WARNING)
    assert "on node-7 (another boot), has not ended in good order, or is still at work" in text
    assert WANT not in text


def test_an_attempt_that_is_at_work_is_not_said_to_be_killed(path, counter, caplog):
    with begin(path):
        counter.write_text("oom_kill 8\n")
        assert "is still at work" in said(caplog, path)
        assert "was killed" not in caplog.text


@pytest.mark.parametrize("error", [None, KeyError, SystemExit, KeyboardInterrupt])
def test_an_attempt_that_ends_however_leaves_no_mark(path, caplog, error):
    if error is None:
        with begin(path):
            pass
    else:
        with pytest.raises(error), begin(path):
            raise error
    assert list(path.parent.iterdir()) == []
    said(caplog, path)
    assert not caplog.records


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"pid": 1}', "x" * 70_000])
def test_a_mark_that_is_none_stops_nothing(path, caplog, text):
    path.parent.mkdir()
    path.write_text(text)
    assert "mark.json" in said(caplog, path)


def test_a_mark_that_cannot_be_written_stops_nothing_and_is_logged(tmp_path, caplog):
    (tmp_path / "marks").write_text("a file, no folder")
    with caplog.at_level(logging.INFO, "trainfeed"), begin(tmp_path / "marks" / "mark.json"):
        pass
    assert "the next attempt may not know how this one ended" in caplog.text


def test_the_number_of_a_process_that_ended_may_be_given_to_another(path, counter, caplog):
    mark = be_killed(path)
    mine = {"pid": os.getpid(), "started": start_ticks(os.getpid()) - 1}
    path.write_text(json.dumps({**mark, **mine}))
    assert "was killed" in said(caplog, path)


def test_a_process_whose_name_is_not_text_is_none_that_was_killed_earlier(path, counter, caplog):
    mark = be_killed(path)
    with oddly_named() as pid:
        # Both processes may have started in one tick of the clock, which no reused id can.
        path.write_text(json.dumps({**mark, "pid": pid, "started": mark["started"] - 1}))
        assert "was killed" in said(caplog, path)
