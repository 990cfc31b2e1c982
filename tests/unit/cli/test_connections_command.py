"""``trainfeed connections check``: a line for each connection, JSON, and the exit status."""

import json

from trainfeed.cli import _command_table


def test_every_connection_is_one_line_and_all_are_well(cli, project):
    status, output, message = cli("connections", "check")
    assert (status, message) == (0, "")
    first, *others = output.splitlines()
    assert first == (
        f"ok: kafka_default (recorded topics, {project.path}/recorded, for clicks): cluster"
        " recorded, topics clicks (3 partitions)"
    )
    assert [line.split()[:2] for line in others] == [
        ["ok:", "TRAINFEED_ROOT"],
        ["ok:", "TRAINFEED_LANDING"],
        ["ok:", "TRAINFEED_WORK"],
    ]


def test_one_that_fails_ends_with_1_and_says_what_to_do(cli, project):
    project.edit("topic: clicks", "topic: klicks")
    status, output, message = cli("connections", "check")
    assert (status, message) == (1, "1 of 4 connections failed\n")
    assert output.startswith("FAILED: kafka_default (recorded topics")
    assert "change TRAINFEED_KAFKA" in output.splitlines()[0]
    status, output, _ = cli("connections", "check", "--json")
    found = json.loads(output)
    assert (status, [each["ok"] for each in found]) == (1, [False, True, True, True])
    assert set(found[0]) == {"name", "kind", "place", "used_by", "ok", "message"}


def test_nothing_is_written(cli, project):
    before = sorted(project.path.rglob("*"))
    assert cli("connections", "check")[0] == 0
    assert sorted(project.path.rglob("*")) == before


def test_the_group_is_listed_where_people_look():
    assert "connections" in [each.name for each in _command_table.HEADINGS["Look"]]
