"""Help with examples, and completion."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
import typer.testing

from trainfeed.cli._app import app
from trainfeed.cli._command_table import HEADINGS

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


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_the_help_of_every_command_begins_with_a_short_sentence(names):
    first = COMMANDS[names].help.partition("\n\n")[0].replace("\n", " ")
    assert first[0].isupper()
    assert first.endswith(".")
    assert not first.endswith("…")
    assert len(first) <= 60, first


def test_the_list_of_commands_has_them_under_headings_one_line_each():
    lines = typer.testing.CliRunner().invoke(app, ["--help"]).stdout.splitlines()
    shown = [line for line in lines if line and not line.startswith("  -")]
    for heading, entries in HEADINGS.items():
        first = shown.index(f"{heading}:") + 1
        words = [line.split(maxsplit=1) for line in shown[first : first + len(entries)]]
        assert words == [[each.name, each.help] for each in entries]
    assert list(HEADINGS) == [
        "Everyday", "Look", "Correct", "Keep", "Models", "Servers", "Storage", "More"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "names", [each for each in COMMANDS if hasattr(COMMANDS[each], "commands")]
)
def test_the_list_of_a_group_has_whole_sentences(names):
    told = " ".join(
        typer.testing.CliRunner().invoke(app, [*names, "--help"]).stdout.replace("│", " ").split()
    )
    for command in COMMANDS[names].commands.values():
        assert command.help.partition("\n\n")[0].replace("\n", " ") in told


@pytest.mark.parametrize("name", ["gc", "prune", "retire"])
def test_the_help_of_the_three_removals_tells_them_apart(name):
    first = {
        each: TOP.commands[each].help.partition("\n\n")[0] for each in ("gc", "prune", "retire")
    }
    assert "killed builds" in first["gc"]
    assert "no version" in first["gc"]
    assert "rules of dataset.yaml" in first["prune"]
    assert "you name" in first["retire"]
    rest = " ".join(TOP.commands[name].help.split())
    assert all(f"trainfeed {other}" in rest for other in first if other != name)


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
