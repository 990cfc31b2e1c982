"""The list of commands is a table; a command is imported when it is asked for."""

import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from trainfeed import __version__
from trainfeed.cli._app import app
from trainfeed.cli._command_table import COMMANDS
from trainfeed.cli.command_groups import Entry, group_on_demand

ROOT = Path(__file__).parents[3]
TOP = typer.main.get_command(app)
HEAVY = {"airflow", "croniter", "numpy", "pendulum", "pyarrow", "pydantic", "ruamel"}
SERVICES = {"http.client", "ssl", "trainfeed.files.stores.hdfs", "trainfeed.files.stores.webhdfs"}
SPECIFICATION = {"trainfeed.core.intervals", "trainfeed.specification.model"}
REPORT = """
import sys
from trainfeed.cli import main
try:
    main()
except SystemExit:
    print("loaded:", *sys.modules)
"""


def run(env, *arguments):
    """Return the output of a command in a fresh interpreter, and the modules loaded by it."""
    done = subprocess.run(
        [sys.executable, "-c", REPORT, *arguments],
        env={"PYTHONPATH": str(ROOT / "include"), **env},
        capture_output=True,
        text=True,
        check=False,
    )
    output, _, modules = done.stdout.partition("loaded: ")
    assert modules, done.stderr
    return output, set(modules.split())


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_the_table_says_what_the_command_says_itself(entry):
    command = TOP.commands[entry.name]
    assert command.name == entry.name
    assert command.help.partition("\n\n")[0].replace("\n", " ") == entry.help
    assert command.epilog.startswith(f"Example: {entry.example or 'trainfeed ' + entry.name}")
    assert hasattr(command, "commands") == (entry.example is None)
    assert not command.hidden
    assert not command.deprecated


def test_the_names_of_the_table_are_different():
    assert len({entry.name for entry in COMMANDS}) == len(COMMANDS) == len(TOP.commands)


@pytest.mark.parametrize(
    ("option", "shown"), [("--help", "quarantine"), ("--version", __version__)]
)
def test_help_and_version_load_no_command_and_no_large_library(option, shown):
    output, modules = run({}, option)
    assert shown in output
    assert not modules & HEAVY
    assert {name for name in modules if name.startswith("trainfeed.cli.")} == {
        f"trainfeed.cli.{name}"
        for name in (
            "_app",
            "_command_table",
            "command_groups",
            "printing",
        )
    }


@pytest.mark.parametrize(
    ("command", "shown", "heavy"),
    [
        # A schedule, a specification and its YAML are what the status is about.
        (["status"], "published", SERVICES | {"airflow", "numpy", "pendulum", "pyarrow"}),
        (["ls"], "published", SERVICES | SPECIFICATION | HEAVY),
        (["ls", "--json"], "published", SERVICES | SPECIFICATION | HEAVY | {"rich"}),
        (["tags", "clicks", "--json"], "[]", SERVICES | HEAVY - {"croniter"}),
        (["history", "clicks"], "no such action", SERVICES | HEAVY - {"croniter"}),
    ],
)
def test_data_sets_are_shown_without_what_only_other_commands_need(project, command, shown, heavy):
    project.prebuilt()
    env = {
        "TRAINFEED_ROOT": project.env.root,
        "TRAINFEED_WORK": project.env.work,
        "TRAINFEED_DATASETS": str(project.env.datasets),
    }
    output, modules = run(env, *command)
    assert shown in output
    assert not modules & heavy


def test_a_command_in_a_module_that_is_missing_fails_when_it_is_asked_for():
    entries = [
        Entry("gone", "._there_is_none:gone", "It is not there.", "trainfeed gone"),
        Entry("schema", ".new:schema", "It is there.", "trainfeed schema"),
    ]
    other = typer.Typer(cls=group_on_demand("trainfeed.cli", {"Two": entries}))
    other.callback()(lambda: None)
    invoke = CliRunner().invoke
    assert "It is not there." in invoke(other, ["--help"]).output
    assert invoke(other, ["schema"]).exit_code == 0
    assert isinstance(invoke(other, ["gone"]).exception, ModuleNotFoundError)


def test_an_unknown_command_is_refused_with_the_nearest_name():
    found = CliRunner().invoke(app, ["lineag"])
    assert found.exit_code == 2
    message = " ".join(found.output.replace("│", " ").split())
    assert "No such command 'lineag'. Did you mean 'lineage'?" in message
