"""Leases keep versions while their process lives, and no longer than their time after its death."""

import gc
import itertools
import json
import os
import signal
import stat
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.roots import reseal
from tests.unit.forks import in_a_fork
from trainfeed.core import canonical_json
from trainfeed.errors import AccessDeniedError, ConfigError, NotFoundError, StorageError
from trainfeed.files.stores import posix
from trainfeed.versions import DatasetFolder
from trainfeed.versions.lease import (
    LONGEST,
    MARGIN,
    HeldLease,
    building,
    hold_build,
    hold_versions,
    leased_versions,
    leases,
    remove_ended,
)
from trainfeed.versions.lease_places import FilePlace

NOW = datetime(2026, 3, 8, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)
VERSION = ("2026-01-01", 1)


class Clock:
    """A clock that a test sets; machines with wrong clocks have one each."""

    def __init__(self, now=NOW):
        self.now = now

    def __call__(self):
        return self.now


@pytest.fixture
def folder(tmp_path):
    folder = DatasetFolder(tmp_path, "clicks")
    folder.interval("2026-01-01").mkdir(parents=True)
    return folder


def mark(folder, interval="2026-01-01", generation=1):
    folder.removal_mark(interval, generation).write_bytes(b"{}")


def take(folder, clock, length=HOUR):
    return hold_versions(folder, [VERSION], "a test", length=length, clock=clock)


def stop_after(held, renewals):
    """Let the thread of a lease, and calls of its function, end after so many renewals."""
    waits = itertools.chain([False] * renewals, itertools.repeat(True))
    held._holder._released.wait = lambda _: next(waits)


def test_a_leased_version_is_in_use_until_it_is_released(folder):
    assert VERSION not in leased_versions(folder, NOW)
    with take(folder, Clock()) as held:
        found = leased_versions(folder, NOW)
        assert VERSION in found
        assert ("2026-01-01", 2) not in found
        assert f"a test since 2026-03-08T12:00:00Z, process {os.getpid()}" in found.why(*VERSION)
        assert found.why("2026-01-01", 2) is None
    assert leases(folder) == []
    held.release()


def test_a_lease_ends_a_margin_after_its_length_and_is_removed_only_then(folder):
    held = take(folder, Clock())
    end = NOW + HOUR + MARGIN
    assert VERSION in leased_versions(folder, end)
    assert remove_ended(folder, end) == []
    assert VERSION not in leased_versions(folder, end + SECOND)
    (ended,) = remove_ended(folder, end + SECOND, dry_run=True)
    assert held.path.exists()
    assert remove_ended(folder, end + SECOND) == [ended]
    assert ended.path == held.path
    assert leases(folder) == []


def test_a_renewal_counts_from_its_own_time(folder):
    clock = Clock()
    held = take(folder, clock)
    clock.now += HOUR / 2
    held.renew()
    assert VERSION in leased_versions(folder, NOW + HOUR * 1.5 + MARGIN)
    assert VERSION not in leased_versions(folder, NOW + HOUR * 1.5 + MARGIN + SECOND)


def test_a_thread_renews_a_lease(folder):
    renewed = threading.Event()
    times = iter([NOW] * 3)

    def clock():
        if (now := next(times, None)) is None:
            renewed.set()
        return now or NOW + timedelta(minutes=1)

    held = hold_versions(folder, [VERSION], "a test", length=timedelta(minutes=1), clock=clock)
    held._holder._released.wait = lambda _: held._holder._released.is_set()
    thread = threading.Thread(target=held._holder._keep)
    thread.start()
    assert renewed.wait(60)
    held.release()
    thread.join()


@pytest.mark.parametrize("ahead", [timedelta(minutes=54), timedelta(days=-3)])
def test_a_holder_that_renews_in_time_bears_clocks_that_differ(folder, ahead):
    """Three quarters of an hour and the margin are borne; a clock that is behind always is."""
    clock = Clock()
    held = take(folder, clock)
    for _ in range(8):
        clock.now += HOUR / 4
        assert VERSION in leased_versions(folder, clock.now + ahead)
        held.renew()


def test_a_clock_further_ahead_takes_a_lease_for_ended(folder):
    take_ = take(folder, clock := Clock())
    clock.now += HOUR / 4
    assert VERSION not in leased_versions(folder, clock.now + timedelta(minutes=56))
    take_.release()


def test_a_lease_from_the_future_is_held_and_ends_after_a_look_that_sets_it_back(folder, caplog):
    held = take(folder, Clock(NOW + timedelta(days=20_000)))
    assert VERSION in leased_versions(folder, NOW)
    assert remove_ended(folder, NOW) == []
    assert "the clock is ahead: a test" in caplog.text
    assert VERSION in leased_versions(folder, NOW + HOUR + MARGIN)
    assert VERSION not in leased_versions(folder, NOW + HOUR + MARGIN + SECOND)
    held.release()


@pytest.mark.parametrize(
    "change",
    [
        b"",
        b"{}\n",
        b"\xff" * 10,
        b"x" * (2 << 20),
        canonical_json.seal(b'{"kind":"read"'),
        canonical_json.seal(
            b'{"account":"a","at":"2026-03-08","host":"h","kind":"read","length":1e9,"pid":1,'
            b'"versions":{"2026-01-01":[1]},"what":"x"'
        ),
    ],
)
def test_a_lease_that_cannot_be_read_holds_every_version_for_a_bounded_time(folder, change):
    held = take(folder, Clock())
    held.path.write_bytes(change)
    os.utime(held.path, (NOW.timestamp(),) * 2)
    last = NOW + LONGEST + MARGIN
    assert ("2026-02-02", 7) in leased_versions(folder, last)
    assert "cannot be read" in leased_versions(folder, last).why("2026-02-02", 7)
    assert ("2026-02-02", 7) not in leased_versions(folder, last + SECOND)
    assert len(remove_ended(folder, last + SECOND)) == 1


def test_a_link_in_the_place_of_a_lease_is_not_followed(folder, tmp_path):
    with take(folder, Clock()) as held:
        elsewhere = tmp_path / "elsewhere.json"
        held.path.rename(elsewhere)
        held.path.symlink_to(elsewhere)
        (found,) = leases(folder)
        assert found.lease is None


def test_the_clock_of_a_link_s_target_is_not_set_back(folder, tmp_path):
    with take(folder, Clock()) as held:
        elsewhere = tmp_path / "elsewhere.json"
        held.path.rename(elsewhere)
        held.path.symlink_to(elsewhere)
        late = (NOW + timedelta(days=20_000)).timestamp()
        os.utime(held.path, (late, late), follow_symlinks=False)
        remove_ended(folder, NOW)
        assert elsewhere.stat().st_mtime == NOW.timestamp()
        assert held.path.lstat().st_mtime == NOW.timestamp()


def test_a_folder_in_the_place_of_a_lease_stops_no_upkeep(folder, caplog):
    foreign = folder.leases / "read.0000.json"
    foreign.mkdir(parents=True)
    os.utime(foreign, (NOW.timestamp(),) * 2)
    with take(folder, Clock()) as held:
        os.utime(held.path, (NOW.timestamp(),) * 2)
        later = NOW + LONGEST + MARGIN + SECOND
        assert [each.path for each in remove_ended(folder, later)] == [held.path]
    assert f"{foreign}: is a directory" in caplog.text
    assert "move it away" in caplog.text


def test_a_lease_of_very_many_versions_is_read(folder):
    many = [(f"2026-01-01T{number:06d}", 1) for number in range(60_000)]
    with hold_versions(folder, many, "a test", clock=Clock()):
        (found,) = leases(folder)
        assert found.problem == ""
        assert found.lease.versions == tuple(many)


def test_a_removed_version_is_not_leased(folder):
    mark(folder)
    with pytest.raises(NotFoundError, match="clicks/2026-01-01/g0001 was removed by retention"):
        take(folder, Clock())
    assert leases(folder) == []


STEPS = ("reader writes", "reader looks", "retention marks", "retention looks")


@pytest.mark.parametrize(
    "order",
    [
        order
        for order in itertools.permutations(STEPS)
        if order.index(STEPS[0]) < order.index(STEPS[1])
        and order.index(STEPS[2]) < order.index(STEPS[3])
    ],
)
def test_reader_or_retention_sees_the_other_in_every_order(folder, order, monkeypatch):
    """The reader is stopped behind its write, as a slow machine would be."""
    written, looks = threading.Event(), threading.Event()

    def stop(name):
        if name == "lease.after_write":
            written.set()
            assert looks.wait(60)

    monkeypatch.setattr("trainfeed.versions.lease.faults.point", stop)
    got = {}

    def read():
        try:
            got["lease"] = take(folder, Clock())
        except NotFoundError:
            got["lease"] = None

    reader = threading.Thread(target=read)
    for step in order:
        if step == "reader writes":
            reader.start()
            assert written.wait(60)
        elif step == "reader looks":
            looks.set()
            reader.join()
        elif step == "retention marks":
            mark(folder)
        else:
            got["seen"] = VERSION in leased_versions(folder, NOW)
    assert got["lease"] is None or got["seen"]


def test_a_lease_that_had_ended_is_taken_again_where_nothing_was_removed(folder, caplog):
    clock = Clock()
    held = take(folder, clock)
    clock.now += timedelta(days=1)
    assert len(remove_ended(folder, clock.now)) == 1
    held.renew()
    assert VERSION in leased_versions(folder, clock.now)
    assert "was renewed late" in caplog.text
    held.require()


@pytest.mark.parametrize("is_swept", [False, True])
def test_a_stopped_reader_learns_that_its_version_was_removed(folder, is_swept):
    clock = Clock()
    held = take(folder, clock)
    clock.now += timedelta(days=1)
    assert VERSION not in leased_versions(folder, clock.now)
    mark(folder)
    if is_swept:
        remove_ended(folder, clock.now)
    with pytest.raises(NotFoundError, match="after the lease had ended"):
        held.renew()


def test_the_thread_keeps_the_loss_for_the_reader(folder):
    clock = Clock()
    held = take(folder, clock, timedelta(minutes=1))
    clock.now += timedelta(days=1)
    mark(folder)
    stop_after(held, 1)
    held._holder._keep()
    with pytest.raises(NotFoundError, match="after the lease had ended"):
        held.require()


def test_a_failed_renewal_is_logged_and_tried_again(folder, monkeypatch, caplog):
    held = take(folder, Clock())
    stop_after(held, 2)

    def fail(*_):
        raise StorageError("the mount is gone")

    monkeypatch.setattr(FilePlace, "stamp", fail)
    held._holder._keep()
    assert caplog.text.count("the mount is gone") == 2
    held.require()
    monkeypatch.undo()


def test_a_lease_without_a_user_is_released(folder):
    take(folder, Clock())
    gc.collect()
    assert leases(folder) == []


def test_an_account_that_may_not_write_is_told_so(folder, monkeypatch):
    def refuse(path, *_, **__):
        raise AccessDeniedError(f"{path}: permission denied")

    monkeypatch.setattr(posix, "create_exclusive", refuse)
    with pytest.raises(AccessDeniedError, match="writable for this account, or read without"):
        take(folder, Clock())


def test_every_account_sees_leases(folder):
    with take(folder, Clock()) as held:
        assert stat.S_IMODE(held.path.stat().st_mode) & 0o444 == 0o444
        assert stat.S_IMODE(held.path.parent.stat().st_mode) & 0o555 == 0o555


@pytest.mark.parametrize("length", [timedelta(), timedelta(seconds=59), timedelta(days=8)])
def test_a_lease_has_a_length_that_can_be_kept(folder, length):
    with pytest.raises(ConfigError, match="expected a lease of 0:01:00 to 7 days"):
        take(folder, Clock(), length)
    assert not folder.leases.exists()


def test_a_fork_neither_releases_nor_renews_the_lease_of_its_parent(folder):
    held = take(folder, Clock())
    assert in_a_fork(held.release) == 0
    assert VERSION in leased_versions(folder, NOW)
    held.release()


HOLDER = """
import sys
from pathlib import Path
from trainfeed.versions import DatasetFolder
from trainfeed.versions.lease import hold_versions
held = hold_versions(DatasetFolder(Path(sys.argv[1]), "clicks"), [("2026-01-01", 1)], "a child")
print("held", flush=True)
sys.stdin.readline()
"""


def start_holder(folder):
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder.root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout.readline() == "held\n"
    return child


def test_a_killed_holder_leaves_a_lease_that_ends_by_itself(folder):
    child = start_holder(folder)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    now = datetime.now(UTC)
    assert VERSION in leased_versions(folder, now)
    assert VERSION not in leased_versions(folder, now + HOUR + MARGIN + SECOND)


def test_a_holder_that_ends_in_good_order_releases_its_lease(folder):
    child = start_holder(folder)
    assert VERSION in leased_versions(folder, datetime.now(UTC))
    child.communicate("\n")
    assert child.returncode == 0
    assert leases(folder) == []


def test_builds_of_an_interval_are_found_by_its_name(folder):
    with (
        hold_build(folder, "2026-01", 3, "plan x", clock=Clock()) as held,
        hold_build(folder, "2026-01.b", 1, "plan y", clock=Clock()),
        take(folder, Clock()),
    ):
        assert isinstance(held, HeldLease)
        (found,) = building(folder, "2026-01", NOW)
        assert found.lease.versions == (("2026-01", 3),)
        assert building(folder, "2026-01", NOW + HOUR + MARGIN + SECOND) == []
        assert json.loads(json.dumps(found.to_json()))["versions"] == {"2026-01": [3]}


@pytest.mark.parametrize("length", [1e300, float("inf"), float("nan"), -1e300, 10**400])
def test_a_lease_of_a_length_that_no_clock_has_holds_everything_and_stops_nobody(folder, length):
    take(folder, Clock()).release()
    path = folder.leases / "read.odd.json"
    path.parent.mkdir(exist_ok=True)
    value = {"kind": "read", "versions": {"2026-01-01": [1]}, "what": "w", "account": "a"}
    value |= {"host": "h", "pid": 1, "at": "2026-03-08T12:00:00Z", "length": length}
    text = json.dumps(value, separators=(",", ":")).encode()
    path.write_bytes(canonical_json.seal(text.removesuffix(b"}")))
    os.utime(path, (NOW.timestamp(), NOW.timestamp()))
    (found,) = leases(folder)
    assert found.lease is None
    assert ("2026-02-02", 7) in leased_versions(folder, NOW)


def test_a_lease_that_a_slow_holder_renews_while_it_is_found_ended_stays(folder, monkeypatch):
    clock = Clock()
    held = take(folder, clock)
    end = NOW + HOUR + MARGIN + SECOND
    found = leases(folder)

    def late(*_):
        clock.now = end
        held.renew()
        return found

    monkeypatch.setattr("trainfeed.versions.lease.leases", late)
    assert remove_ended(folder, end) == []
    assert held.path.exists()
    held.release()


def test_a_lease_in_the_place_of_another_holds_every_version(folder, tmp_path):
    other = DatasetFolder(tmp_path, "views")
    with (
        take(folder, Clock()) as held,
        take(folder, Clock()) as second,
        take(other, Clock()) as foreign,
    ):
        for each in (second, foreign):
            data = held.path.read_bytes()
            held.path.write_bytes(each.path.read_bytes())
            assert held.path.name in leased_versions(folder, datetime.now(UTC)).why("2026-02-02", 7)
            held.path.write_bytes(data)
        foreign.path.rename(held.path)
        held.path.rename(foreign.path.with_name(held.path.name))
        assert [each.lease for each in leases(other)] == [None]


def test_a_lease_of_before_which_does_not_say_where_it_is_holds_its_versions(folder):
    with take(folder, Clock()) as held:
        reseal(held.path, dataset=None, file=None)
        (found,) = leases(folder)
        assert (found.problem, found.lease) == ("", held.lease)
