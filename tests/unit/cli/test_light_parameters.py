"""Parameters that need no conversion are read without pydantic; all others by typer, as ever."""

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.core import TyperCommand
from typer.testing import CliRunner

from trainfeed.cli.command_groups import LightCommand

ROOT = Path(__file__).parents[3]
READ = []


def read(
    text: Annotated[str, typer.Argument(parser=str.upper)] = "a",
    *,
    plain: str = "b",
    number: Annotated[int, typer.Option(min=1)] = 1,
    share: float = 0.5,
    names: Annotated[list[str] | None, typer.Option("--name")] = None,
    path: Path | None = None,
    flag: bool = False,
) -> None:
    READ[:] = [text, plain, number, share, names, path, flag]


def outcome(command, arguments):
    """Return status, output and values of the command line, as a class of commands reads it."""
    app = typer.Typer()
    app.command(cls=command)(read)
    READ.clear()
    found = CliRunner().invoke(app, arguments)
    return found.exit_code, found.output, list(READ)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], ["A", "b", 1, 0.5, None, None, False]),
        (["c", "--plain", "3"], ["C", "3", 1, 0.5, None, None, False]),
        (["--number", "2", "--share", "1"], ["A", "b", 2, 1.0, None, None, False]),
        (["--name", "d", "--name", "e"], ["A", "b", 1, 0.5, ["d", "e"], None, False]),
        (["--path", "f", "--flag"], ["A", "b", 1, 0.5, None, Path("f"), True]),
        (["--plain", "\udcff"], ["A", "\udcff", 1, 0.5, None, None, False]),
    ],
)
def test_values_are_those_of_typer(arguments, expected):
    status, _, values = outcome(LightCommand, arguments)
    assert (status, values) == (0, expected)
    assert outcome(TyperCommand, arguments)[2] == values


@pytest.mark.parametrize(
    "arguments", [["--number", "0"], ["--number", "x"], ["a", "b"], ["--flag=x"]]
)
def test_what_typer_refuses_is_refused_in_its_words(arguments):
    status, output, values = outcome(LightCommand, arguments)
    assert (status, values) == (2, [])
    assert outcome(TyperCommand, arguments) == (2, output, [])


@pytest.mark.parametrize(("option", "needs"), [(["--plain", "c"], False), (["--share", "1"], True)])
def test_only_a_conversion_needs_pydantic(option, needs):
    code = (
        "import sys, typer; from trainfeed.cli.command_groups import LightCommand\n"
        "app = typer.Typer()\n"
        "@app.command(cls=LightCommand)\n"
        "def read(plain: str = 'b', share: float = 0.5): print('pydantic' in sys.modules)\n"
        "app()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *option],
        env={"PYTHONPATH": str(ROOT / "include")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{needs}\n"
