"""``trainfeed withdraw`` and ``restore``: what they print, and their exit statuses."""

import json

import pytest

DAY = "clicks/2024-03-01"
WHY = ("--why", "labels of yesterday", "--who", "ada")


@pytest.fixture
def twice(project):
    project.prebuilt()
    project.edit("seed: 7", "seed: 8")
    project.prebuilt(rebuild="another seed")
    return project


def test_a_version_is_withdrawn_and_given_back(cli, twice):
    status, out, err = cli("withdraw", DAY, "--dry-run")
    assert (status, out) == (0, f"{DAY}/g0002 would be withdrawn; nothing was changed\n")
    assert f"readers get {DAY}/g0001" in err
    status, out, err = cli("withdraw", DAY, *WHY)
    assert status == 0
    assert out.startswith(f"{DAY}/g0002 was withdrawn by ada (")
    assert f"trainfeed restore {DAY}/g0002 --why WHY" in err
    assert twice.version().name == "2024-03-01/g0001"
    told = json.loads(cli("withdraw", DAY, *WHY, "--json")[1])
    assert (told["target"], told["readers_get"], told["written"]) == (f"{DAY}/g0002", "g0001", 0)
    assert cli("restore", DAY, "--dry-run")[1].startswith(f"{DAY}/g0002 is intact and would be")
    assert cli("restore", DAY, *WHY)[1].startswith(f"{DAY}/g0002 is intact and restored; ")
    assert cli("restore", DAY, *WHY)[1].startswith(f"{DAY}/g0002 was restored before; ")
    told = json.loads(cli("restore", DAY, *WHY, "--json")[1])
    assert (told["readers_get"], told["withdrawn"]["why"]) == ("g0002", "labels of yesterday")


def test_the_last_version_is_said_to_be_the_last(cli, project):
    project.prebuilt()
    assert f"no version of {DAY} is left for readers" in cli("withdraw", DAY, *WHY)[2]


def test_wrong_use_and_damage_have_their_own_statuses(cli, twice):
    for arguments in ([DAY], ["clicks", *WHY], [f"{DAY}/2024-03-02", *WHY], [DAY, "--why", "x"]):
        for command in ("withdraw", "restore"):
            status, _, err = cli(command, *arguments)
            assert (status, "nothing was changed" in err) == (2, True)
    assert ended(cli("restore", DAY, *WHY)) == (1, "is withdrawn; nothing was changed")
    assert ended(cli("withdraw", f"{DAY}/g0009", *WHY))[0] == 1
    (twice.version(generation=1).path / "statistics.json").unlink()
    assert ended(cli("withdraw", DAY, *WHY))[0] == 3
    cli("withdraw", f"{DAY}/g0001", *WHY)
    status, _, err = cli("withdraw", f"{DAY}/g0001", "--why", "another reason")
    assert status == 1
    assert "was withdrawn by ada (" in err


def test_a_version_with_a_damaged_mark_is_not_called_withdrawn_once_it_is_back(cli, twice):
    cli("withdraw", DAY, *WHY)
    twice.folder.withdrawal_mark("2024-03-01", 2).write_bytes(b"")
    status, out, _ = cli("restore", DAY, *WHY)
    assert status == 0
    assert "g0002 was withdrawn and given back; who and why cannot be told" in out


@pytest.mark.parametrize("command", ["ls", "show", "preview", "replay"])
def test_commands_of_the_quarantine_say_who_withdrew_the_last_version(cli, project, command):
    project.prebuilt()
    cli("withdraw", DAY, *WHY)
    status, _, err = cli("quarantine", command, DAY)
    assert status == 1
    assert f"{DAY}/g0001 was withdrawn by ada (" in err


@pytest.mark.parametrize("who", ["", " ", "a\x1b[31mb"])
@pytest.mark.parametrize(
    "command",
    [
        ["withdraw", DAY],
        ["restore", DAY],
        ["repair", DAY],
        ["retire", DAY],
        ["tag", "clicks", "2024-03-01", "prod"],
        ["untag", "clicks", "prod"],
    ],
    ids=lambda each: each[0],
)
def test_a_person_without_a_name_is_refused_and_not_taken_for_the_account(
    cli, project, command, who
):
    project.prebuilt()
    status, _, err = cli(*command, "--why", "labels of yesterday", "--who", who)
    assert status == 2
    assert "expected who of 1 to 500 printable characters" in err
    assert "nothing was changed" in err


def ended(result):
    """Status, and the end of the message."""
    return result[0], result[2].strip()[-33:]


def test_tags_that_name_it_are_told_or_moved(cli, twice):
    cli("tag", "clicks", "2024-03-01", "prod", "--why", "release")
    assert "opening clicks@prod fails" in cli("withdraw", DAY, *WHY)[2]
    assert "clicks@prod names that one, too" in cli("withdraw", DAY, *WHY, "--move-tags")[2]


def test_a_printed_command_that_gives_a_tag_has_all_its_options(cli, twice):
    cli("tag", "clicks", "2024-03-01", "prod", "--why", "release")
    assert "trainfeed tag clicks RANGE prod --why WHY" in cli("withdraw", DAY, "--dry-run")[2]


def test_a_tag_that_is_damaged_later_has_its_status_beside_the_withdrawal(cli, twice):
    cli("withdraw", DAY, *WHY)
    (twice.folder.tags / "Old").mkdir(parents=True)
    status, out, err = cli("withdraw", DAY, *WHY)
    assert (status, out.startswith(f"{DAY}/g0002 was withdrawn by ada (")) == (3, True)
    assert f"{DAY}/g0002 is withdrawn; clicks@Old cannot be read: " in err
    (problem,) = json.loads(cli("withdraw", DAY, *WHY, "--json")[1])["tag_problems"]
    assert (problem["tag"], problem["error"]) == ("Old", "FormatError")
    status, output, _ = cli("tags", "clicks", "--json")
    assert (status, [each["tag"] for each in json.loads(output)]) == (3, ["Old"])


def test_a_tag_that_cannot_move_has_status_1_beside_the_withdrawal(cli, project):
    project.prebuilt()
    cli("tag", "clicks", "2024-03-01", "prod", "--why", "release")
    assert cli("withdraw", DAY, *WHY, "--move-tags")[0] == 1
    assert project.folder.generations("2024-03-01") == [1]
    cli("withdraw", DAY, *WHY)
    status, _, err = cli("withdraw", DAY, *WHY, "--move-tags")
    assert (status, f"{DAY}/g0001 is withdrawn; clicks@prod was not moved: " in err) == (1, True)


def test_a_second_withdrawal_without_a_generation_hides_no_older_one(cli, twice):
    cli("withdraw", DAY, *WHY)
    status, _, err = cli("withdraw", DAY, "--why", "the labels are wrong")
    assert (status, f"trainfeed withdraw {DAY}/g0001 --why WHY" in err) == (1, True)
    assert twice.version().name == "2024-03-01/g0001"
