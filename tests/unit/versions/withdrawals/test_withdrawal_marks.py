"""Marks of withdrawn generations: what they say, and that damage never gives one back."""

import shutil
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.pipeline.conftest import make_project
from trainfeed.errors import ConflictError
from trainfeed.versions import DatasetFolder
from trainfeed.versions.layout import CURRENT, MANIFEST
from trainfeed.versions.withdraw import (
    Withdrawal,
    lift_withdrawal,
    lifted_withdrawals,
    told_withdrawals,
    withdrawal_of,
    withdrawals,
    withdrawn_alike,
    write_withdrawal,
)

DAY = "2024-03-01"
A, B = "a" * 64, "b" * 64
BY = "c" * 16
MARK = Withdrawal(
    "clicks",
    DAY,
    1,
    A,
    B,
    who="ada",
    account="builder",
    why="labels of yesterday",
    at="2026-03-08T00:00:00Z",
)
TOLD = "clicks/2024-03-01/g0001 was withdrawn by ada (builder) at 2026-03-08T00:00:00Z: labels of"


@pytest.fixture
def folder(tmp_path):
    folder = DatasetFolder(tmp_path, "clicks")
    folder.version(DAY, 1).mkdir(parents=True)
    return folder


def mark_of(folder):
    return folder.withdrawal_mark(DAY, 1)


def test_a_mark_is_read_as_written_and_hides_the_generation(folder):
    assert withdrawals(folder, DAY) == []
    assert told_withdrawals(folder, DAY) == ""
    write_withdrawal(folder, MARK)
    assert withdrawals(folder, DAY) == [MARK]
    assert folder.generations(DAY) == []
    assert told_withdrawals(folder, DAY) == f"{TOLD} yesterday"
    assert mark_of(folder).stat().st_mode & 0o777 == 0o644


def test_of_two_people_one_withdraws_and_the_other_is_told_who_and_why(folder):
    write_withdrawal(folder, MARK)
    with pytest.raises(ConflictError, match=r"already, nothing was written: .* by ada \(builder\)"):
        write_withdrawal(folder, replace(MARK, who="ben"))
    assert withdrawals(folder, DAY) == [MARK]


def test_a_withdrawal_that_is_taken_back_stays_readable_and_can_be_repeated(folder):
    again = replace(MARK, at="2026-03-09T00:00:00Z", why="again")
    for mark in (MARK, again):
        write_withdrawal(folder, mark)
        lift_withdrawal(folder, withdrawal_of(folder, DAY, 1), BY)
        assert folder.generations(DAY) == [1]
    assert lifted_withdrawals(folder, DAY, 1) == [MARK, again]
    assert withdrawal_of(folder, DAY, 1) is None


def test_only_the_mark_that_was_seen_is_taken_back(folder):
    write_withdrawal(folder, MARK)
    seen = withdrawal_of(folder, DAY, 1)
    lift_withdrawal(folder, seen, BY)
    with pytest.raises(ConflictError, match="it is not withdrawn any more; nothing was changed"):
        lift_withdrawal(folder, seen, BY)
    write_withdrawal(folder, replace(MARK, who="ben"))
    with pytest.raises(ConflictError, match=r"meanwhile: .* by ben \(builder\)"):
        lift_withdrawal(folder, seen, BY)
    assert withdrawal_of(folder, DAY, 1).who == "ben"
    assert lifted_withdrawals(folder, DAY, 1) == [MARK]


def damaged(path):
    data = bytearray(path.read_bytes())
    data[10] ^= 1
    path.write_bytes(data)


HARMS = {
    "flipped": damaged,
    "cut": lambda path: path.write_bytes(path.read_bytes()[:40]),
    "empty": lambda path: path.write_bytes(b""),
    "huge": lambda path: path.write_bytes(bytes(1 << 17)),
    "of another": lambda path: path.rename(path.with_name("g0002.withdrawn")),
    "a link to nowhere": lambda path: (path.unlink(), path.symlink_to("nowhere")),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
def test_a_damaged_mark_is_a_withdrawal_and_speaks_against_every_version(folder, harm):
    write_withdrawal(folder, MARK)
    (folder.version(DAY, 1) / MANIFEST).touch()
    (folder.interval(DAY) / CURRENT).write_text("g0001\n")
    harm(mark_of(folder))
    (found,) = withdrawals(folder, DAY)
    assert "is withdrawn; who and why cannot be told" in found.told
    if found.generation == 1:
        assert folder.readable_generation(DAY) is None
    assert withdrawn_alike(folder, DAY, fingerprint="c" * 64) == [found]
    lift_withdrawal(folder, found, BY)
    assert withdrawals(folder, DAY) == []


def test_a_mark_speaks_against_its_fingerprint_and_against_its_content_alone(folder):
    write_withdrawal(folder, MARK)
    (mark,) = withdrawals(folder, DAY)
    other = "c" * 64
    assert withdrawn_alike(folder, DAY, fingerprint=A) == [mark]
    assert withdrawn_alike(folder, DAY, fingerprint=other, content_digest=B) == [mark]
    assert withdrawn_alike(folder, DAY, fingerprint=other, content_digest=other) == []
    assert withdrawn_alike(folder, DAY, fingerprint=B) == []
    assert withdrawn_alike(folder, DAY, fingerprint=A, known={mark.digest}) == []
    assert withdrawn_alike(folder, "2024-03-02", fingerprint=A) == []


def test_a_mark_made_by_hand_gets_its_facts_from_the_manifest(tmp_path):
    project = make_project(tmp_path)
    project.prebuilt()
    manifest = project.version().manifest
    project.folder.withdrawal_mark(DAY, 1).touch()
    (mark,) = withdrawals(project.folder, DAY)
    assert (mark.fingerprint, mark.content_digest) == (
        manifest.fingerprint,
        manifest.content_digest,
    )
    assert withdrawn_alike(project.folder, DAY, fingerprint=A) == []
    shutil.rmtree(project.folder.version(DAY, 1))
    assert len(withdrawn_alike(project.folder, DAY, fingerprint=A)) == 1


@settings(max_examples=60, deadline=None)
@given(
    present=st.sets(st.integers(1, 4)),
    hidden=st.sets(st.integers(1, 4)),
    removed=st.sets(st.integers(1, 4)),
    current=st.sampled_from(["", "g0001\n", "g0002\n", "g0004\n", "g0003.withdrawn\n"]),
)
def test_readers_never_get_a_withdrawn_or_removed_generation(
    tmp_path_factory, present, hidden, removed, current
):
    folder = DatasetFolder(tmp_path_factory.mktemp("root"), "clicks")
    folder.interval(DAY).mkdir(parents=True)
    (folder.interval(DAY) / CURRENT).write_text(current)
    for number in present:
        folder.version(DAY, number).mkdir()
        (folder.version(DAY, number) / MANIFEST).touch()
    for number in hidden:
        write_withdrawal(folder, replace(MARK, generation=number))
    for number in removed:
        folder.removal_mark(DAY, number).touch()
    found = folder.readable_generation(DAY)
    allowed = present - hidden - removed
    assert (found in allowed) if allowed else (found is None)
    assert {mark.generation for mark in withdrawals(folder, DAY)} == hidden
