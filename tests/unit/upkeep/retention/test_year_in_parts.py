"""A year that is played in parts is the year that is played at once."""

import json
from datetime import datetime

import pytest

from tests.retention import kept, year
from tests.retention.kept import NotGoingOnError
from tests.retention.nights import Nights
from tests.retention.year import play_part

NIGHTS = 8
# Within eight nights: leases, tags, rebuilds, and a build that stopped.
SEED = 42


@pytest.fixture(autouse=True)
def on_a_local_disk(monkeypatch):
    monkeypatch.delenv("TEST_HDFS_URI", raising=False)
    monkeypatch.delenv("TEST_CEPHFS_PATH", raising=False)


def lines(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines() if line[0] == "{"]


def play(folder, minutes, seed=SEED):
    return play_part(folder, NIGHTS, seed, minutes)


def test_parts_of_one_night_end_as_all_nights_at_once(tmp_path, capsys, monkeypatch):
    seen = {}
    play_one = Nights.play_one

    def noted(nights, number):
        landing = play_one(nights, number)
        remembered = json.dumps(kept._taken(nights), default=datetime.isoformat, sort_keys=True)
        seen.setdefault(number, []).append((landing, remembered))
        return landing

    monkeypatch.setattr(Nights, "play_one", noted)
    assert play(tmp_path / "whole", float("inf"))
    whole = lines(capsys)[-1]
    assert {"leases", "tags", "rebuilds", "builds that stopped"} <= {
        w for w, n in whole.items() if n
    }
    parts = [play(tmp_path / "parts", 0) for _ in range(NIGHTS)]
    assert parts == [False] * (NIGHTS - 1) + [True]
    assert lines(capsys)[-1] == whole
    assert all(one == other for one, other in seen.values())
    assert not (tmp_path / "parts").exists()


def test_a_part_goes_on_only_with_the_year_that_was_begun(tmp_path, capsys):
    assert not play(tmp_path / "year", 0)
    with pytest.raises(NotGoingOnError, match=f"seed is {SEED}, not 2; remove"):
        play(tmp_path / "year", 0, seed=2)
    assert not play(tmp_path / "year", 0)


def test_a_night_that_was_killed_in_its_middle_ends_the_year(tmp_path, monkeypatch):
    def killed(*_):
        raise RuntimeError("killed")

    monkeypatch.setattr(Nights, "play_one", killed)
    with pytest.raises(RuntimeError):
        play(tmp_path / "year", 0)
    with pytest.raises(NotGoingOnError, match="night 0 was begun and not ended"):
        play(tmp_path / "year", 0)


def test_a_part_says_that_its_code_is_another_one(tmp_path, capsys, monkeypatch):
    assert not play(tmp_path / "year", 0)
    before = kept.code_digest()
    monkeypatch.setattr(kept, "code_digest", lambda: "f" * 64)
    assert not play(tmp_path / "year", 0)
    told = next(line["told"] for line in lines(capsys) if "told" in line)
    assert told == [
        f"code {before[:12]} plays from night 0",
        "the code has changed: ffffffffffff plays from night 1",
    ]


def test_a_signal_to_end_lets_the_night_end(tmp_path, monkeypatch):
    play_one = Nights.play_one

    def asked_to_end(nights, number):
        year.signal.raise_signal(year.signal.SIGTERM)
        return play_one(nights, number)

    monkeypatch.setattr(Nights, "play_one", asked_to_end)
    assert not play(tmp_path / "year", 60)
    assert json.loads((tmp_path / "year/year.json").read_text())["next"] == 1
