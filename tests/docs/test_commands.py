"""Every command of README.md and of the pages runs as it stands, in the order of its document."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from examples.daily import places
from services.airflow import AirflowStack
from tests.docs.clone import make_clone
from tests.docs.commands import Command, commands_of, documents, rule_for, rules, script
from trainfeed.dataset import DatasetFolder, Version

# Idle it takes a minute or two; a busy machine may take long, and a part that dies is told at once.
RUN_S = 1500.0
TAIL_CHARS = 6000

RUNNABLE = [
    document
    for document in documents()
    if any(rule_for(each) is None for each in commands_of(document))
]

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture
def clone():
    clone = make_clone()
    yield clone
    stopped = run("make stop", clone)
    shutil.rmtree(clone.parent, ignore_errors=True)
    assert stopped.returncode == 0, stopped.stdout


def run(program: str, clone: Path) -> subprocess.CompletedProcess[str]:
    """Run a program of bash in the clone, with an empty home and nothing of our environment."""
    environ = {"HOME": str(clone.parent / "home"), "LANG": "C.UTF-8", "PATH": os.defpath}
    return subprocess.run(
        ["bash", "-c", program],
        cwd=clone,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=RUN_S,
        check=False,
    )


def airflow_of(clone: Path) -> AirflowStack:
    return AirflowStack(places.home_of(clone / "data"))


def require_success(client, dag_id, num_runs):
    runs = client.wait_for(client.dag_runs(dag_id), RUN_S)
    assert len(runs) == num_runs
    assert {run.state for run in runs} == {"success"}, [run.run_id for run in runs]


def require_versions(clone, name, *versions):
    folder = DatasetFolder(clone / "data" / "root", name)
    for version in versions:
        interval, generation = version.split("/")
        found = Version.resolve(folder, interval)
        assert (found.path.name, list(found.problems())) == (generation, [])


def look_at_readme(clone):
    """What the calls of the section on triggers have asked for takes place."""
    stack = airflow_of(clone)
    client = stack.client
    require_success(client, "build.flights", 6)  # three of `make run`, three of the REST backfill
    require_success(client, "build.clicks", 6)  # three triggers, three of the backfill
    require_versions(clone, "flights", *(f"2013-01-0{day}/g0001" for day in range(1, 8)))
    require_versions(clone, "clicks", "2026-01-01/g0002", "2026-01-02/g0001", "2026-01-03/g0001")
    stopped = run("make stop", clone)
    assert "airflow: stopped postgres, api-server, scheduler" in stopped.stdout
    said = (clone / "background.log").read_text()
    assert f"Airflow: {stack.url}  user: admin" in said
    assert "Error" not in said


LOOKS = {"README.md": look_at_readme}


@pytest.mark.parametrize("document", RUNNABLE)
def test_the_commands_of_a_document_run_as_they_stand(clone, document):
    assert run("make setup", clone).returncode == 0
    # Pages begin where README.md has left off: in the environment.
    before = "" if document == "README.md" else ". .venv/bin/activate\n"
    done = run(before + script(commands_of(document)), clone)
    last = done.stdout.rfind("\n@@ ")
    assert done.returncode == 0, done.stdout[max(last, len(done.stdout) - TAIL_CHARS) :]
    LOOKS.get(document, lambda _: None)(clone)


def test_every_exception_is_about_a_command_and_has_a_reason():
    known = [command for document in documents() for command in commands_of(document)]
    for rule in rules():
        assert any(rule.holds_for(command) for command in known), rule
        assert len(rule.reason.split()) > 4, rule


def test_readme_and_the_page_on_data_sets_are_run():
    assert {"README.md", "docs/guides/add-a-data-set.md"} <= set(RUNNABLE)
    commands = [command for command in commands_of("README.md") if rule_for(command) is None]
    assert len(commands) > 15


def test_a_command_that_fails_is_told_from_one_that_works(tmp_path):
    commands = [Command("README.md", n, text) for n, text in enumerate(["true", "false", "true"])]
    done = subprocess.run(
        ["bash", "-c", script(commands)], cwd=tmp_path, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, b"@@ README.md:0 true\n@@ README.md:1 false\n")
