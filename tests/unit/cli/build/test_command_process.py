"""A process that runs one command after another answers as the commands do alone."""

import os
import signal
from multiprocessing import Pipe

import pytest

from trainfeed import __version__
from trainfeed.cli.build_ranges import CommandEnd, CommandProcess


@pytest.fixture
def process():
    made = CommandProcess()
    yield made
    made.close()


def test_each_command_has_its_own_status_output_and_messages(process):
    assert process.run(["--version"]) == CommandEnd(0, f"{__version__}\n", "")
    wrong = process.run(["ls", "--nothing"])
    assert (wrong.status, wrong.output) == (2, "")
    assert "No such option" in wrong.messages
    # Shorter than what was printed before, none of which is left.
    assert process.run(["--version"]) == CommandEnd(0, f"{__version__}\n", "")
    assert process.is_usable


def test_messages_name_the_program_as_one_command_does(process, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    ended = process.run(["build", "clicks", "--interval", "2024-03-01"])
    assert ended.status != 0
    assert "_served_commands" not in ended.messages


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_process_that_was_killed_says_so_and_takes_no_further_command(process, number):
    assert process.run(["--version"]).status == 0
    os.kill(process.pid, number)
    assert process.run(["--version"]).status == -number
    assert not process.is_usable


def test_a_process_takes_no_more_commands_than_its_bound(process, monkeypatch):
    monkeypatch.setattr("trainfeed.cli.build_ranges._MOST_COMMANDS", 2)
    for is_usable in (True, False):
        process.run(["--version"])
        assert process.is_usable is is_usable


def test_what_a_dead_process_left_behind_does_not_keep_the_caller_waiting(process, monkeypatch):
    """A descendant may hold the pipe of answers open for as long as it lives."""
    assert process.run(["--version"]).status == 0
    ours, held = Pipe()
    with ours, held, monkeypatch.context() as patch:
        patch.setattr(process, "connection", ours)
        os.kill(process.pid, signal.SIGKILL)
        assert process.run(["--version"]).status == -signal.SIGKILL


def test_a_command_finds_standard_input_empty(process):
    ended = process.run(["file", "cat", "/dev/stdin"])
    assert ended.output == ""
    assert process.run(["--version"]).output == f"{__version__}\n"
