"""A damaged manifest is put back only if something proves its bytes."""

import shutil

import pytest

from tests.support.roots import write_sealed
from tests.unit.upkeep.repair.conftest import contents, flip, outcomes, repaired, shards
from trainfeed.core.accounts import Decision
from trainfeed.errors import ChecksumError
from trainfeed.versions.tag import apply_change, propose_tag

DAY = "2024-03-01"
BOTH = ("MANIFEST.json", "MANIFEST.sha256")


def place_of(project, name):
    return project.folder.version(DAY, 1) / name


@pytest.mark.parametrize(
    "damage",
    [
        {"MANIFEST.json": "missing"},
        {"MANIFEST.json": "changed"},
        {"MANIFEST.sha256": "missing"},
        {"MANIFEST.sha256": "changed"},
    ],
)
def test_one_of_both_files_is_enough_because_the_plan_leads_to_the_same_bytes(published, damage):
    before = contents(published)
    for name, kind in damage.items():
        place_of(published, name).unlink() if kind == "missing" else flip(
            place_of(published, name), 0.3
        )
    report = repaired(published, 1)
    assert report.is_whole
    assert report.effort.shards == 4
    assert contents(published) == before


@pytest.mark.parametrize("name", BOTH)
def test_a_folder_in_the_place_of_a_manifest_file_goes_to_the_trash(published, name):
    before = contents(published)
    place_of(published, name).unlink()
    (place_of(published, name) / "deep").mkdir(parents=True)
    assert repaired(published, 1).is_whole
    assert contents(published) == before
    (moved,) = published.folder.trash.glob(f"*/{name}")
    assert (moved / "deep").is_dir()


def test_the_other_files_are_compared_once_the_manifest_is_back(published):
    before = contents(published)
    shard = shards(published)[0]
    flip(place_of(published, "MANIFEST.json"))
    flip(place_of(published, shard))
    report = repaired(published)
    assert outcomes(report) == {
        "MANIFEST.json": ("changed", "repaired"),
        shard: ("changed", "repaired"),
    }
    assert contents(published) == before


def test_without_both_files_and_without_a_witness_nothing_is_believed(published):
    for name in BOTH:
        place_of(published, name).unlink()
    damaged = contents(published)
    report = repaired(published, 1)
    assert not report.is_whole
    assert "nothing that is left names the digest" in report.files[0].how
    assert contents(published) == damaged


def job_of(project, digest):
    folder = project.folder.training(DAY, "j1")
    folder.mkdir(parents=True)
    version = {"interval": DAY, "generation": "g0001", "manifest_sha256": digest}
    write_sealed(folder / "job.json", {"versions": [version]})


def test_a_training_that_read_the_version_is_a_witness_for_both_files(published):
    before = contents(published)
    job_of(published, published.version().manifest_sha256)
    for name in BOTH:
        place_of(published, name).unlink()
    assert repaired(published, 1).is_whole
    assert contents(published) == before


def test_with_a_witness_a_lost_digest_is_written_without_any_work(published):
    before = contents(published)
    job_of(published, published.version().manifest_sha256)
    place_of(published, "MANIFEST.sha256").unlink()
    report = repaired(published)
    assert (report.is_whole, report.effort.shards) == (True, 0)
    assert contents(published) == before


def test_a_manifest_that_a_witness_contradicts_is_not_believed(published):
    job_of(published, "0" * 64)
    flip(place_of(published, "MANIFEST.sha256"))
    damaged = contents(published)
    assert not repaired(published).is_whole
    assert contents(published) == damaged


def test_a_backup_gives_the_manifest_when_the_code_has_changed(published, tmp_path):
    before = contents(published)
    shutil.copytree(published.folder.version(DAY, 1), tmp_path / "backup")
    flip(place_of(published, "MANIFEST.json"))
    published.edit("seed: 7", "seed: 8")
    assert not repaired(published).is_whole
    with pytest.raises(ChecksumError):
        published.version()
    assert repaired(published, backup=tmp_path / "backup").is_whole
    assert contents(published) == before


def test_a_dry_run_of_a_damaged_manifest_changes_nothing(published):
    flip(place_of(published, "MANIFEST.json"))
    damaged = contents(published)
    report = repaired(published, dry_run=True)
    assert outcomes(report) == {"MANIFEST.json": ("changed", "found")}
    assert contents(published) == damaged


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_tag_proves_a_manifest_whose_two_files_are_lost(published, is_damaged):
    before = contents(published)
    if is_damaged:  # its earlier change, which silences no later one
        published.folder.tag("prod").mkdir(parents=True)
        (published.folder.tag("prod") / "0001.json").write_bytes(b"{}")
    proposal = propose_tag(published.folder, DAY, "prod", Decision.now("a release"))
    apply_change(published.folder, proposal)
    for name in BOTH:
        place_of(published, name).unlink()
    assert repaired(published, 1).is_whole
    assert contents(published) == before
