"""``trainfeed history`` shows the audit trail, and says when a file of it is damaged."""

import json


def test_every_removal_is_in_the_history_with_its_reason(cli, project):
    project.edit("seed: 7", "seed: 7\nretention: {keep_generations: 1}")
    project.prebuilt()
    project.prebuilt(rebuild="again")
    assert cli("history", "clicks") == (0, "clicks: no such action\n", "")
    assert cli("prune", "clicks")[0] == 0
    (action,) = json.loads(cli("history", "clicks", "--json")[1])
    assert (action["action"], action["why"]) == ("prune", "keep_generations: 1")
    assert [each["name"] for each in action["details"]["items"]] == ["2024-03-01/g0001"]
    shown = cli("history", "clicks", "--action", "prune")[1]
    assert "keep_generations: 1" in shown
    assert "clicks/2024-03-01/g0001" in shown
    assert json.loads(cli("history", "clicks", "--json", "--action", "tag")[1]) == []
    assert json.loads(cli("history", "clicks", "--json", "--since", "2999-01-01")[1]) == []


def test_a_damaged_file_is_said_and_hides_no_other(cli, project):
    project.edit("seed: 7", "seed: 7\nretention: {keep_generations: 1}")
    for reason in (None, "again"):
        project.prebuilt(rebuild=reason)
    cli("prune", "clicks")
    (path,) = project.folder.history.rglob("*.json")
    (path.parent / f"0{path.name}").write_bytes(b"{")
    status, output, message = cli("history", "clicks")
    assert (status, "keep_generations: 1" in output) == (3, True)
    assert "is damaged" in message
