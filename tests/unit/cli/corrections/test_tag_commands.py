"""``trainfeed tag``, ``untag`` and ``tags``, and the commands and readers that take NAME@TAG."""

import json

import pytest

from trainfeed.errors import ConfigError, ConflictError, NotFoundError
from trainfeed.loader import open_intervals
from trainfeed.readers import open_dataset
from trainfeed.serving.dispatch import TaskList
from trainfeed.versions.withdraw import Withdrawal, write_withdrawal

DAYS = ("2024-03-01", "2024-03-02")
RANGE = "/".join(DAYS)
WHY = ("--why", "release of March")


@pytest.fixture
def built(project):
    for day in DAYS:
        project.prebuilt(day)
    return project


@pytest.fixture
def moved(cli, built):
    """A tag of two days, the first of which was built again since."""
    assert cli("tag", "clicks", RANGE, "prod", *WHY)[0] == 0
    built.edit("seed: 7", "seed: 8")
    built.prebuilt(DAYS[0], rebuild="another order")
    return built


def withdraw(project, day, generation):
    version = project.version(day, generation)
    write_withdrawal(
        project.folder,
        Withdrawal(
            "clicks", day, generation,
            version.manifest.fingerprint, version.manifest.content_digest,
            version.manifest_sha256, version.manifest.plan,
            who="ada", account="ada", why="wrong labels", at="2026-03-08T00:00:00Z",
        ),
    )  # fmt: skip


def names(reader):
    return [version.name for version in reader.versions]


def test_a_tag_is_shown_before_it_is_given_and_needs_a_reason(cli, built):
    status, output, _ = cli("tag", "clicks", RANGE, "prod", "--dry-run")
    assert status == 0
    assert "clicks@prod would become change 1: 2 versions" in output
    assert cli("tags", "clicks", "--json")[1].strip() == "[]"
    status, _, message = cli("tag", "clicks", RANGE, "prod")
    assert (status, "expected --why, or --dry-run" in message) == (2, True)
    status, output, _ = cli("tag", "clicks", RANGE, "prod", *WHY, "--who", "ada", "--verify")
    assert status == 0
    assert "clicks@prod is change 1: 2 versions" in output
    (told,) = json.loads(cli("tags", "clicks", "--json")[1])
    assert (told["tag"], told["number"], told["who"]) == ("prod", 1, "ada")


def test_a_move_shows_from_where_to_where_and_is_in_the_history(cli, moved):
    status, output, _ = cli("tag", "clicks", RANGE, "prod", "--why", "new order", "--json")
    assert status == 0
    found = json.loads(output)
    assert found["changes"] == [{"interval": DAYS[0], "from": "g0001", "to": "g0002"}]
    assert (found["before"], found["number"], found["written"]) == (1, 2, True)
    status, output, _ = cli("tag", "clicks", RANGE, "prod", "--why", "again")
    assert (status, "nothing was changed" in output) == (0, True)
    changes = json.loads(cli("tags", "clicks", "prod", "--history", "--json")[1])
    assert [change["why"] for change in changes] == ["release of March", "new order"]
    shown = json.loads(cli("tags", "clicks", "prod#1", "--json")[1])
    assert shown["generations"] == dict.fromkeys(DAYS, "g0001")
    assert "g0002" in cli("tags", "clicks", "prod")[1]


def test_readers_loader_and_dispatch_read_exactly_what_is_tagged(moved):
    root = moved.env.root
    with_tag = {"split": "train", "root": root}
    assert names(open_dataset("clicks@prod", **with_tag)) == [f"{day}/g0001" for day in DAYS]
    assert names(open_dataset("clicks@prod", interval=DAYS[0], **with_tag)) == [f"{DAYS[0]}/g0001"]
    window = open_intervals("clicks@prod", list(DAYS), **with_tag)
    assert names(window.dataset) == [f"{day}/g0001" for day in DAYS]
    tasks = TaskList.of_range("clicks@prod", None, "train", root=root)
    assert (tasks.name, [each.name for each in tasks.versions]) == (
        "clicks",
        [f"{day}/g0001" for day in DAYS],
    )
    assert names(open_dataset("clicks", interval=DAYS[0], **with_tag)) == [f"{DAYS[0]}/g0002"]
    with pytest.raises(ConfigError, match="a tag names generations itself"):
        open_dataset("clicks@prod", interval=DAYS[0], generation="g0002", **with_tag)
    with pytest.raises(NotFoundError, match="tags of data were looked up, not aliases of models"):
        open_dataset("clicks@candidate", **with_tag)


def test_the_commands_that_look_at_versions_take_a_tag(cli, moved):
    target = f"clicks@prod/{DAYS[0]}"
    assert json.loads(cli("show", target, "--json")[1])["generation"] == 1
    for command in ("ls", "show"):
        rows = json.loads(cli(command, "clicks@prod", "--json")[1])
        assert [row["generation"] for row in rows] == ["g0001", "g0001"]
    checked = json.loads(cli("verify", "clicks@prod", "--json")[1])
    assert [each["target"] for each in checked] == [f"clicks/{day}/g0001" for day in DAYS]
    for command in ("head", "stats"):
        assert cli(command, target)[0] == 0
    assert cli("diff", target, f"clicks/{DAYS[0]}/g0001")[0] == 0
    assert cli("diff", target, f"clicks/{DAYS[0]}/g0002")[0] == 3
    status, output, _ = cli("lineage", target)
    assert (status, f"{DAYS[0]}/g0001" in output) == (0, True)
    status, _, message = cli("lineage", "clicks@prod")
    assert (status, "aliases of models were looked up, not tags of data" in message) == (1, True)
    for wrong in (f"{target}/g0001", "clicks@", "clicks@prod#x"):
        assert cli("show", wrong)[0] == 2
    assert cli("drift", "clicks@prod")[0] == 2


def test_a_withdrawn_version_stops_the_tag_with_the_reason_and_two_ways_out(cli, moved):
    withdraw(moved, DAYS[0], 1)
    with pytest.raises(ConflictError, match="wrong labels"):
        open_dataset("clicks@prod", split="train", root=moved.env.root)
    status, _, message = cli("show", "clicks@prod")
    assert status == 1
    assert f"trainfeed restore clicks/{DAYS[0]}/g0001" in message
    assert f"trainfeed tag clicks {RANGE} prod --why" in message
    assert cli("tag", "clicks", RANGE, "prod", "--why", "without the wrong labels")[0] == 0
    assert names(open_dataset("clicks@prod", split="train", root=moved.env.root)) == [
        f"{DAYS[0]}/g0002",
        f"{DAYS[1]}/g0001",
    ]


def test_a_hole_needs_a_word(cli, built):
    status, _, message = cli("tag", "clicks", "2024-03-01/2024-03-03", "prod", *WHY)
    assert (status, "trainfeed build clicks --interval 2024-03-03" in message) == (1, True)
    status, _, message = cli(
        "tag", "clicks", "2024-03-01/2024-03-03", "prod", *WHY, "--allow-missing"
    )
    assert (status, "2024-03-03 has no version in it" in message) == (0, True)


def test_a_removed_tag_is_listed_in_its_history_only(cli, built):
    assert cli("tag", "clicks", RANGE, "prod", *WHY)[0] == 0
    status, output, _ = cli("untag", "clicks", "prod", "--dry-run")
    assert (status, "names 2 versions" in output) == (0, True)
    assert cli("untag", "clicks", "prod")[0] == 2
    assert cli("untag", "clicks", "prod", "--why", "retired")[0] == 0
    status, output, _ = cli("untag", "clicks", "prod", "--why", "retired")
    assert (status, "was removed already by" in output) == (0, True)
    assert cli("tags", "clicks", "--json")[1].strip() == "[]"
    assert cli("show", "clicks@prod")[0] == 1
    assert "removed" in cli("tags", "clicks", "prod", "--history")[1]
    assert cli("untag", "clicks", "never", "--why", "not used")[0] == 1


def test_a_damaged_tag_is_named_and_the_others_are_listed(cli, built):
    for tag in ("prod", "next"):
        assert cli("tag", "clicks", RANGE, tag, *WHY)[0] == 0
    path = built.folder.tag("prod") / "0001.json"
    path.write_bytes(path.read_bytes().replace(b"g0001", b"g0002").replace(b"March", b"Marsh"))
    status, output, message = cli("tags", "clicks", "--json")
    assert (status, "clicks@prod is damaged" in message) == (3, True)
    assert [each["tag"] for each in json.loads(output)] == ["next", "prod"]
    assert cli("show", "clicks@prod")[0] == 3
    assert cli("tag", "clicks", RANGE, "prod", *WHY)[0] == 0
    assert cli("show", "clicks@prod")[0] == 0
    status, output, message = cli("tags", "clicks", "prod", "--history", "--json")
    assert (status, "clicks@prod#1 is damaged" in message) == (3, True)
    assert [(each["number"], "damaged" in each) for each in json.loads(output)] == [
        (2, False), (1, True),
    ]  # fmt: skip
    (built.folder.tag("prod") / "0002.json").write_bytes(b"")
    status, output, message = cli("tags", "clicks", "--history")
    assert (status, "clicks@prod#2 is damaged" in message, "next" in output) == (3, True, True)
    assert cli("tags", "clicks", "prod", "--history")[0] == 3


def test_a_folder_with_a_name_that_no_tag_can_have_is_named_in_the_history_of_all(cli, built):
    assert cli("tag", "clicks", RANGE, "prod", *WHY)[0] == 0
    (built.folder.tags / "Prod").mkdir()
    status, output, message = cli("tags", "clicks", "--history")
    assert (status, "prod" in output) == (3, True)
    assert "move it out of the folder of tags" in " ".join(message.split())
    assert cli("tags", "clicks", "Prod", "--history")[0] == 2
