"""A sample of ``make nightly-sweep``: damaged files through their readers and through commands."""

from collections import Counter

import pytest

from tests.sweep.cases import Sweep
from tests.sweep.exceptions import CASES, READINGS
from tests.sweep.flips import flip_file, swept_files
from tests.sweep.kinds import KINDS, kind_of
from tests.sweep.project import without_syncs
from tests.sweep.root import Life, files_of

# Cases of the commands; of a file, about so many bytes.
CASES_PLAYED = 40
BYTES = 24
FAULTS = {"silent", "published", "crash"}


@pytest.fixture(scope="module")
def life(tmp_path_factory):
    with without_syncs():
        yield Life.lived(tmp_path_factory.mktemp("life"))


def test_the_life_has_files_of_every_kind_and_every_exception_is_about_one(life):
    stages = ("plan", "ingest", "preprocess", "convert", "check", "publish", "later")
    there = {kind_of(name) for stage in stages for name, _ in files_of(life.again(stage))}
    assert set(KINDS) - there == set()
    assert {kind for kind, _ in CASES} <= there
    assert set(READINGS) <= there


@pytest.mark.ci
def test_no_damaged_file_gives_a_reader_another_answer_without_an_error(life):
    counts, faults, read = Counter(), [], set()
    for name, kind in swept_files(life, "later"):
        size = (life.again("later").path / name).stat().st_size
        found, lines = flip_file(life, "later", name, max(1, size // BYTES))
        read |= set() if found["unread"] else {kind}
        counts += found
        faults += lines
    assert faults == []
    assert read == {kind for _, kind in swept_files(life, "later")}
    assert counts["error"] > counts["same"]


@pytest.mark.ci
def test_no_command_answers_otherwise_without_a_word(life):
    sweep = Sweep(life)
    played = [sweep.play(seed) for seed in range(CASES_PLAYED)]
    faults = [(str(case), outcome) for case, outcome in played if outcome.result in FAULTS]
    assert faults == []
    assert sum(outcome.result == "error" for _, outcome in played) > CASES_PLAYED // 5
