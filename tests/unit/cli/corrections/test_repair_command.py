"""``trainfeed repair``: what it prints, and its statuses."""

import json

from tests.unit.upkeep.repair.conftest import flip

DAY = "2024-03-01"
TARGET = f"clicks/{DAY}/g0001"


def damage(project):
    project.prebuilt()
    shard = next(project.folder.version(DAY, 1).glob("*-eval-*"))
    flip(shard)
    return shard.name


def test_damage_that_verify_finds_is_repaired_by_the_command_that_it_names(cli, project):
    shard = damage(project)
    status, _, message = cli("verify", TARGET)
    assert status == 3
    assert f"trainfeed repair {TARGET}" in message
    status, output, message = cli("repair", TARGET, "--why", "a bad disk")
    assert status == 0
    assert shard in output
    assert "made again from its plan" in output
    assert "is intact again" in output
    assert "183 records, 0 of them read from the source, and 1 shards" in message
    assert cli("verify", TARGET)[0] == 0
    status, output, _ = cli("repair", TARGET)
    assert (status, output) == (0, f"{TARGET} is intact\n")


def test_a_dry_run_ends_like_verify(cli, project):
    shard = damage(project)
    status, output, message = cli("repair", f"clicks/{DAY}", "--dry-run")
    assert (status, shard in output, "a dry run" in message) == (3, True, True)
    status, output, _ = cli("repair", TARGET, "--dry-run", "--json")
    (found,) = json.loads(output)["files"]
    assert (status, found["file"], found["kind"], found["outcome"]) == (
        3,
        shard,
        "changed",
        "found",
    )


def test_what_cannot_be_repaired_is_status_3_with_the_ways_that_are_left(cli, project):
    damage(project)
    project.edit("seed: 7", "seed: 8")
    status, output, message = cli("repair", TARGET)
    assert status == 3
    assert "spec.seed: 7 → 8" in output
    assert f"trainfeed repair {TARGET} --from FOLDER" in message
    assert f"trainfeed build clicks --interval {DAY} --rebuild WHY" in message
    status, output, _ = cli("repair", TARGET, "--json")
    report = json.loads(output)
    assert (status, report["is_whole"], len(report["offers"])) == (3, False, 3)


def test_usage_and_missing_versions_have_their_statuses(cli, project):
    project.prebuilt()
    for wrong in ("clicks", "clicks/", f"clicks/{DAY}/3", f"clicks/{DAY}/g0001/x"):
        assert cli("repair", wrong)[0] == 2, wrong
    assert cli("repair", f"clicks/{DAY}/g0007")[0] == 1
    assert cli("repair", "clicks/2024-03-02")[0] == 1
