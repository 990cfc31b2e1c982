"""Help with examples, and completion."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
import typer.testing

from trainfeed.cli._app import app
from trainfeed.cli._command_table import COMMANDS as COMMAND_TABLE

ROOT = Path(__file__).parents[3]
TOP = typer.main.get_command(app)


def commands(command, *names):
    yield names, command
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, *names, name)


COMMANDS = dict(commands(TOP))


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_the_help_of_every_command_has_an_example_that_it_can_read(names):
    command = COMMANDS[names]
    assert command.epilog, f"trainfeed {' '.join(names)} has no example"
    example = command.epilog.removeprefix("Example: ").partition(". Exit status")[0]
    program, *words = shlex.split(example.partition(" > ")[0])
    assert program == "trainfeed"
    assert tuple(words[: len(names)]) == names
    found = command
    while hasattr(found, "commands"):
        found = found.commands[words[len(names)]]
        names = (*names, found.name)
    context = typer.Context(found)
    options, rest, _ = found.make_parser(context).parse_args(words[len(names) :])
    assert not rest
    assert options or not words[len(names) :]


def test_the_list_of_commands_has_their_whole_lines():
    told = " ".join(typer.testing.CliRunner().invoke(app, ["--help"]).stdout.split())
    assert max(len(each.help) for each in COMMAND_TABLE) > 80  # a list cuts such lines by default
    assert [each.name for each in COMMAND_TABLE if each.help not in told] == []


def test_the_help_says_what_the_exit_status_means():
    for number in ("0 done", "1 failed", "2 wrong usage", "3 damage", "130 ended"):
        assert number in TOP.epilog


@pytest.fixture
def program(tmp_path):
    """The command as an environment has it, without completion of this machine."""
    path = tmp_path / "trainfeed"
    path.write_text("from trainfeed.cli import main\n\nmain()\n")

    def run(**env):
        (tmp_path / "root" / "clicks" / "versions" / "2024-03-01").mkdir(
            parents=True, exist_ok=True
        )
        done = subprocess.run(
            [sys.executable, str(path)],
            env={
                "PYTHONPATH": str(ROOT / "include"),
                "TRAINFEED_ROOT": str(tmp_path / "root"),
                "TRAINFEED_DATASETS": str(tmp_path),
                **env,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout

    return run


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_get_a_script_that_completes_commands(program, shell):
    assert "_TRAINFEED_COMPLETE=complete_" + shell in program(_TRAINFEED_COMPLETE=f"source_{shell}")


def test_data_sets_and_their_intervals_are_completed(program):
    def complete(words):
        number = str(len(words.split()) - 1)
        return program(
            _TRAINFEED_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=number
        ).split()

    assert complete("trainfeed sho") == ["show"]
    assert complete("trainfeed show cl") == ["clicks"]
    assert complete("trainfeed show clicks/2024") == ["clicks/2024-03-01"]
