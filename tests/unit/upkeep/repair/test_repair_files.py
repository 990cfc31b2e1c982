"""Every kind of file, damaged in every way, becomes byte for byte what it was."""

import os
import random
from datetime import UTC, datetime

import pytest

from tests.unit.upkeep.repair.conftest import (
    contents,
    flip,
    lengthen,
    outcomes,
    repaired,
    replace_by_folder,
    replace_by_link,
    replace_by_pipe,
    shards,
    truncate,
)
from trainfeed.errors import AccessDeniedError, ConfigError, NotFoundError
from trainfeed.upkeep.repair import find_damage
from trainfeed.upkeep.repair import repairing as _repair_version
from trainfeed.versions.history import actions
from trainfeed.versions.lease import leased_versions

DAY = "2024-03-01"
TARGET = f"clicks/{DAY}/g0001"
OTHERS = ["CHUNKS.arrow", "POSITIONS.arrow", "statistics.json", "quarantine/records.arrow"]
DAMAGE = {
    "changed": flip,
    "wrong size": truncate,
    "missing": os.unlink,
    "not a file": replace_by_link,
}


def place_of(project, name):
    return project.folder.version(DAY, 1) / name


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize("name", ["a shard", *OTHERS])
def test_a_damaged_file_gets_its_bytes_and_permissions_back(published, name, kind):
    name = shards(published)[2] if name == "a shard" else name
    before = contents(published)
    DAMAGE[kind](place_of(published, name))
    assert contents(published) != before
    report = repaired(published)
    assert outcomes(report) == {name: (kind, "repaired")}
    assert report.is_whole
    assert contents(published) == before
    published.version().verify()


@pytest.mark.parametrize("seed", range(6))
def test_a_bit_that_flips_anywhere_is_found_and_put_right(published, seed):
    choice = random.Random(seed)
    name = choice.choice([*shards(published), *OTHERS])
    before = contents(published)
    flip(place_of(published, name), choice.random())
    assert outcomes(repaired(published)) == {name: ("changed", "repaired")}
    assert contents(published) == before


def test_all_findings_of_a_version_are_reported_and_repaired_at_once(published):
    before = contents(published)
    first, second, *_ = shards(published)
    flip(place_of(published, first))
    lengthen(place_of(published, second))
    place_of(published, "CHUNKS.arrow").unlink()
    replace_by_folder(place_of(published, "POSITIONS.arrow"))
    replace_by_pipe(place_of(published, "statistics.json"))
    place_of(published, "notes").mkdir()
    place_of(published, "notes/a.txt").write_text("x")
    report = repaired(published)
    assert outcomes(report) == {
        first: ("changed", "repaired"),
        second: ("wrong size", "repaired"),
        "CHUNKS.arrow": ("missing", "repaired"),
        "POSITIONS.arrow": ("not a file", "repaired"),
        "statistics.json": ("not a file", "repaired"),
        "notes": ("extra", "repaired"),
    }
    assert contents(published) == before
    kept = sorted(path.name for path in published.folder.trash.rglob("*") if path.is_file())
    assert kept == ["a.txt", "inside"]


def test_the_damaged_chunk_is_named(published):
    shard = shards(published)[1]
    flip(place_of(published, shard))
    (found,) = find_damage(published.version())
    assert "damaged of its 1 chunks: number 0 (bytes " in found.what


def test_only_damaged_shards_are_written_and_the_source_is_not_read(published):
    flip(place_of(published, shards(published)[3]))
    effort = repaired(published).effort
    assert (effort.shards, effort.source_reads, effort.records) == (1, 0, 183)


def test_a_quarantine_is_made_again_without_any_shard(published):
    place_of(published, "quarantine/records.arrow").unlink()
    assert repaired(published).effort.shards == 0


def test_a_second_name_is_cut_off_by_a_copy_and_nothing_is_computed(published, tmp_path):
    before = contents(published)
    name = shards(published)[0]
    (tmp_path / "other").hardlink_to(place_of(published, name))
    report = repaired(published)
    assert outcomes(report) == {name: ("second name", "repaired")}
    assert report.effort.records == 0
    assert place_of(published, name).stat().st_nlink == 1
    assert contents(published) == before


@pytest.mark.parametrize(
    ("name", "mode"), [("CHUNKS.arrow", 0o400), ("quarantine/records.arrow", 0o644)]
)
def test_permissions_come_back(published, name, mode):
    before = contents(published)
    place_of(published, name).chmod(mode)
    report = repaired(published)
    assert outcomes(report) == {name: ("wrong mode", "repaired")}
    assert contents(published) == before


def test_a_folder_of_the_version_that_became_a_link_is_not_followed(published, tmp_path):
    before = contents(published)
    real = place_of(published, "quarantine")
    real.rename(tmp_path / "elsewhere")
    real.symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    report = repaired(published)
    assert outcomes(report) == {
        "quarantine": ("extra", "repaired"),
        "quarantine/records.arrow": ("missing", "repaired"),
    }
    assert not real.is_symlink()
    assert contents(published) == before


def test_an_intact_version_is_left_alone_and_nothing_is_recorded(published):
    report = repaired(published)
    assert (report.is_whole, report.files) == (True, ())
    assert list(actions(published.folder)) == []


def test_a_dry_run_says_how_and_changes_nothing(published):
    name = shards(published)[0]
    flip(place_of(published, name))
    place_of(published, "notes.txt").write_text("x")
    before = contents(published)
    report = repaired(published, dry_run=True)
    assert outcomes(report) == {name: ("changed", "found"), "notes.txt": ("extra", "found")}
    assert "else made again from its plan" in report.files[0].how
    assert not report.is_whole
    assert contents(published) == before
    assert list(actions(published.folder)) == []


def test_the_history_says_who_and_why_before_and_the_outcome_after(published):
    name = shards(published)[0]
    flip(place_of(published, name))
    repaired(published, why="a bad disk", who="ana")
    began, ended = actions(published.folder)
    assert (began.action, began.target, began.who, began.why) == (
        "repair",
        TARGET,
        "ana",
        "a bad disk",
    )
    assert began.details["files"] == {name: "changed"}
    assert (ended.action, ended.details["files"]) == ("repaired", {name: "repaired"})


def test_without_a_reason_the_history_says_which_files_were_damaged(published):
    name = shards(published)[0]
    flip(place_of(published, name))
    repaired(published)
    why = f"no reason was given; damaged files: 1, first: {name!r}: changed"
    assert [each.why for each in actions(published.folder)] == [why, why]


@pytest.mark.parametrize("why", ["", "x", "a\nb", "a" * 501])
def test_a_reason_that_is_none_changes_nothing(published, why):
    flip(place_of(published, shards(published)[0]))
    before = contents(published)
    with pytest.raises(ConfigError, match="expected why of 3 to 500"):
        repaired(published, why=why)
    assert contents(published) == before
    assert list(actions(published.folder)) == []


def test_the_age_of_the_version_stays_the_same_for_retention(published):
    path = published.folder.version(DAY, 1)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    flip(place_of(published, shards(published)[0]))
    repaired(published)
    assert path.stat().st_mtime == 1_700_000_000


def test_nothing_stays_behind_in_staging_and_work(published):
    flip(place_of(published, shards(published)[0]))
    repaired(published)
    left = [*published.folder.staging.iterdir(), *(published.path / "work/spill").iterdir()]
    assert [path.name for path in left] == ["tmp"]


def test_a_version_that_is_not_there_is_no_damage(published):
    with pytest.raises(NotFoundError, match="published generations of the interval: g0001"):
        repaired(published, 2)
    (published.folder.removal_mark(DAY, 1)).write_text("{}")
    with pytest.raises(NotFoundError, match="removed by retention"):
        repaired(published, 1)


def test_an_account_that_may_not_change_the_version_is_told_before_any_work(published, monkeypatch):
    flip(place_of(published, shards(published)[0]))
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(AccessDeniedError, match="repair it as the account that builds"):
        repaired(published)
    assert list(actions(published.folder)) == []


def test_a_repair_holds_its_version_until_it_ends(published, monkeypatch):
    real, held = _repair_version._files_repaired, []

    def during(*args):
        held.append(leased_versions(published.folder, datetime.now(UTC)).holders)
        return real(*args)

    monkeypatch.setattr(_repair_version, "_files_repaired", during)
    flip(published.folder.version(DAY, 1) / shards(published)[0])
    assert repaired(published).is_whole
    assert [set(each) for each in held] == [{(DAY, 1)}]
    assert leased_versions(published.folder, datetime.now(UTC)).holders == {}
