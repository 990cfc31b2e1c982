"""Every command of README.md and of the pages runs as it stands, in the order of its document."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from examples.daily import places
from services._home import default_home
from services.airflow import AirflowStack
from tests.docs.clone import make_clone
from tests.docs.commands import (
    Command,
    commands_of,
    documents,
    rule_for,
    rules,
    script,
    services_of,
)
from tests.docs.verdicts import EXPECTED, builds_of, require_verdicts, verdicts_of
from trainfeed.versions import DatasetFolder, Version

# Idle it takes a minute or two; a busy machine may take long, and a part that dies is told at once.
RUN_S = 1500.0
TAIL_CHARS = 6000

SERVICES_HOME = "TRAINFEED_SERVICES_HOME"

RUNNABLE = [
    document
    for document in documents()
    if any(rule_for(each) is None for each in commands_of(document))
]

# Read one after another, in one clone: each goes on with what the one before has built.
FIRST_WALK = ["README.md", "docs/start.md", "docs/tutorials/several-ranks.md"]
# Minutes of Airflow, most of which the end-to-end tests run too.
LONG_WALKS = ["docs/guides/trigger-and-backfill.md"]
WALKS = [FIRST_WALK, *([document] for document in RUNNABLE if document not in FIRST_WALK)]

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture
def clone():
    clone = make_clone()
    yield clone
    stopped = run("make stop", clone)
    shutil.rmtree(clone.parent, ignore_errors=True)
    assert stopped.returncode == 0, stopped.stdout


def run(program: str, clone: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a program of bash in the clone, with an empty home and nothing of our environment."""
    home = str(clone.parent / "home")
    environ = {"HOME": home, "LANG": "C.UTF-8", "PATH": os.defpath, **more}
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


def look_at_triggers(clone):
    """What the calls of the page on triggers have asked for takes place."""
    stack = airflow_of(clone)
    client = stack.client
    require_success(client, "build.flights", 6)  # three of `make run`, three of the REST backfill
    require_success(client, "build.clicks", 6)  # three triggers, three of the backfill
    require_versions(clone, "flights", *(f"2013-01-0{day}/g0001" for day in (1, 2, 3, 5, 6, 7)))
    require_versions(clone, "clicks", "2026-01-01/g0002", "2026-01-02/g0001", "2026-01-03/g0001")
    stopped = run("make stop", clone)
    assert "airflow: stopped postgres, api-server, scheduler" in stopped.stdout
    said = (clone / "background.log").read_text()
    assert f"Airflow: {stack.url}  user: admin" in said
    assert "Error" not in said


def look_at_readme(clone):
    """Three days are published, and the runs of Airflow have succeeded."""
    require_versions(clone, "flights", *(f"2013-01-0{day}/g0001" for day in range(1, 4)))


LOOKS = {
    "README.md": look_at_readme,
    "docs/guides/trigger-and-backfill.md": look_at_triggers,
}


def begins_with_run(document):
    return commands_of(document)[0].text.startswith("make run")


def as_parameter(walk):
    """The documents as a parameter, with the services that they need as marks."""
    needed = {service for document in walk for service in services_of(document)}
    marks = [pytest.mark.integration(service) for service in sorted(needed)]
    if walk[0] in LONG_WALKS:
        marks.append(pytest.mark.nightly)
    elif walk != FIRST_WALK:
        marks.append(pytest.mark.ci)
    return pytest.param(walk, marks=marks, id=" ".join(walk))


@pytest.mark.parametrize("walk", [as_parameter(walk) for walk in WALKS])
def test_the_commands_of_documents_run_as_they_stand(clone, walk):
    assert run("make setup", clone).returncode == 0
    for document in walk:
        run_document(document, clone)


def run_document(document, clone):
    # Pages begin in the environment, unless they make it themselves.
    before = "" if begins_with_run(document) else ". .venv/bin/activate\n"
    # A service that a document starts is the one that runs already: nothing is fetched.
    more = {SERVICES_HOME: str(default_home())} if services_of(document) else {}
    done = run(before + script(commands_of(document)), clone, **more)
    last = done.stdout.rfind("\n@@ ")
    assert done.returncode == 0, done.stdout[max(last, len(done.stdout) - TAIL_CHARS) :]
    require_verdicts(document, done.stdout)
    LOOKS.get(document, lambda _: None)(clone)


def test_every_exception_is_about_a_command_and_has_a_reason():
    known = [command for document in documents() for command in commands_of(document)]
    for rule in rules():
        assert any(rule.holds_for(command) for command in known), rule
        assert len(rule.reason.split()) > 4, rule


def test_readme_the_first_pages_and_the_tutorials_are_run():
    tutorials = {page for page in documents() if page.startswith("docs/tutorials/")}
    pages = {
        "docs/start.md",
        "docs/guides/add-a-data-set.md",
        "docs/guides/trigger-and-backfill.md",
    }
    assert len(tutorials) >= 4
    assert {"README.md", *pages, *tutorials} <= set(RUNNABLE)
    for page, least in {"docs/start.md": 12, "docs/guides/trigger-and-backfill.md": 10}.items():
        commands = [command for command in commands_of(page) if rule_for(command) is None]
        assert len(commands) >= least


SINGLE = "│ verdict │ built │"
RANGE = "│ 2026-01-01 │ identical │ g0001 │\n│ 2026-01-02 │ built     │ g0001 │"


def test_a_page_that_builds_nothing_new_is_found_out():
    assert verdicts_of(f"{SINGLE}\n{RANGE}") == {"built", "identical"}
    (first, *_) = builds_of("docs/start.md")
    output = "".join(
        f"@@ {each.document}:{each.line} {each.text}\n{SINGLE}\n"
        for each in builds_of("docs/start.md")
    )
    require_verdicts("docs/start.md", output)
    place = f"{first.document}:{first.line}"
    wrong = output.replace("built", "identical", 1)
    with pytest.raises(AssertionError, match=place):
        require_verdicts("docs/start.md", wrong)


def test_every_expected_verdict_is_of_a_command_that_runs():
    known = {(page, each.text) for page in documents() for each in builds_of(page)}
    assert set(EXPECTED) <= {(page, text.partition("  #")[0].rstrip()) for page, text in known}
    assert len({page for page, _ in known}) >= 6


def test_a_block_with_a_title_is_written_as_a_file(tmp_path, monkeypatch):
    page = "```python title=\"a/b.py\"\nprint('it''s $HOME')\n```\n\n```\npython3 a/b.py\n```\n"
    (tmp_path / "page.md").write_text(page)
    monkeypatch.setattr("tests.docs.commands.REPOSITORY", tmp_path)
    program = script(commands_of("page.md"))
    done = subprocess.run(["bash", "-c", program], cwd=tmp_path, capture_output=True, check=True)
    assert done.stdout.splitlines()[-2:] == [b"@@ page.md:6 python3 a/b.py", b"its $HOME"]


def test_the_services_of_a_document_are_those_that_its_commands_start():
    assert services_of("docs/tutorials/kafka.md") == ["kafka"]
    assert services_of("docs/tutorials/log-folders.md") == ["hdfs"]
    assert services_of("docs/tutorials/avro-topic.md") == ["kafka", "registry", "registry"]
    assert services_of("README.md") == []


def test_a_command_that_fails_is_told_from_one_that_works(tmp_path):
    commands = [Command("README.md", n, text) for n, text in enumerate(["true", "false", "true"])]
    done = subprocess.run(
        ["bash", "-c", script(commands)], cwd=tmp_path, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, b"@@ README.md:0 true\n@@ README.md:1 false\n")
