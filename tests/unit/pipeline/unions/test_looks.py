"""Commands on a data set of a union: every one that looks, and those that build again."""

import json

import pytest

from tests.support import warm
from tests.unit.pipeline.test_kill import variables
from tests.unit.pipeline.unions.every_kind import (
    DAYS,
    PER_DAY,
    all_keys,
    make_union_project,
    read_keys,
)

# Commands are other processes, which ask a real registry: tests/integration/registry has that.
MEMBERS = ("columns", "landed", "lines", "table", "topic")


@pytest.fixture
def project(tmp_path):
    project = make_union_project(tmp_path, MEMBERS)
    project.edit("end: 2024-03-31", f"end: {DAYS[-1]}")
    return project


@pytest.fixture
def run(project):
    environ = variables(project) | {
        "TRAINFEED_KAFKA": f"recorded:{project.path / 'topic'}",
        "TRAINFEED_LOGS": str(project.path / "store"),
        "TRAINFEED_CATALOG": f"sqlite:///{project.path}/catalog.db",
    }

    def run(*arguments, status=0):
        """Run a command that ends with a status; return its JSON."""
        done = warm.command(*arguments, "--json", env=environ)
        assert done.returncode == status, (arguments, done.stdout, done.stderr)
        return json.loads(done.stdout)

    return run


@pytest.fixture
def built(project, run):
    run("build", f"clicks/{DAYS[0]}/{DAYS[-1]}")
    assert read_keys(project) == all_keys(members=MEMBERS)
    return project


def by_member(found):
    return {each["source"].partition("/")[0] for each in found}


def test_looks_at_versions_are_those_of_any_data_set(built, run):
    states = {each["interval"]: each["state"] for each in run("status", "clicks")["intervals"]}
    assert states == dict.fromkeys(DAYS, "published")
    assert [each["samples"] for each in run("ls", "clicks")] == [90, 90, 90]
    shown = run("show", f"clicks/{DAYS[0]}")
    assert len(shown["inputs"]) == len(MEMBERS) + 1
    run("verify", f"clicks/{DAYS[0]}")
    drift = run("drift", "clicks")
    assert [each["version"] for each in drift] == [f"{day}/g0001" for day in DAYS]
    assert {each["name"] for each in run("connections", "check") if not each["ok"]} == set()
    verdicts = {each["verdict"] for each in run("boundaries", "check", "clicks")["files"]}
    assert verdicts == {"right"}


def test_a_rejected_record_is_shown_by_its_position_with_the_member(built, run):
    found = run("quarantine", "show", f"clicks/{DAYS[0]}")["shown"]
    assert by_member(found) == set(MEMBERS)
    for each in found:
        place = f"{each['source']}:{each['offset']}"
        (one,) = run("quarantine", "show", f"clicks/{DAYS[0]}", "--at", place)["shown"]
        assert one["message"] == f"of {each['source'].partition('/')[0]}"
        lineage = run("lineage", f"{each['source']}@{each['offset']}")
        assert [fate["fate"] for fate in lineage["fates"].values()] == ["quarantined"]


def test_mended_code_is_found_previewed_replayed_compared_and_brought_forward(built, run):
    built.mend()
    outdated = run("outdated", "clicks", status=1)
    assert outdated["counts"] == {"outdated": len(DAYS)}
    # Folders and tables are read again, whatever has landed of the others.
    assert outdated["cost"]["not_landed"] == len(DAYS)
    preview = run("quarantine", "preview", f"clicks/{DAYS[0]}")
    assert (preview["previewed"], preview["valid"]) == (len(MEMBERS), len(MEMBERS))
    replayed = run("quarantine", "replay", f"clicks/{DAYS[0]}", "--why", "mended")
    assert replayed["generation"] == "g0002"
    difference = run("diff", f"clicks/{DAYS[0]}", status=3)
    assert difference["records"]["counts"]["added"] == len(MEMBERS)
    brought = run("bring-forward", f"clicks/{DAYS[0]}/{DAYS[-1]}")
    assert [each["interval"] for each in brought] == DAYS[1:]
    assert run("outdated", "clicks")["counts"] == {"current": len(DAYS)}
    wanted = all_keys(members=MEMBERS) | {20_000: len(DAYS) * len(MEMBERS)}
    assert read_keys(built) == wanted


def test_what_the_sources_say_of_published_days_names_the_member(built, run):
    assert run("outdated", "clicks", "--against-source")["counts"] == {"current": len(DAYS)}
    file = built.folder_of("lines", 1) / "part-1"
    file.write_text('{"value": 5000, "copies": 1}\n')
    found = run("outdated", "clicks", "--against-source", status=1)
    said = {each["interval"]: each["source"] for each in found["intervals"]}
    assert [day for day, each in said.items() if each["state"] == "changed"] == [DAYS[1]]
    assert f"lines/logs:{DAYS[1]}/part-1: none" in said[DAYS[1]]["text"]


def test_previews_and_dry_runs_write_nothing(project, run):
    report = run("build", "clicks", "--interval", DAYS[0], "--limit", "10")
    assert report["records"] == 10
    report = run("build", "clicks", "--interval", DAYS[0], "--dry-run")
    assert by_member(report["reads"]) == set(MEMBERS)
    assert not project.folder.path.exists() or not project.folder.intervals()
    whole = run("build", "clicks", "--interval", DAYS[0], "--limit", "1000")
    assert whole["records"] == len(MEMBERS) * PER_DAY
