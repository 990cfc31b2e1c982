"""``trainfeed paddle …`` on a mount: the commands of PaddlePaddle's documents."""

import os
from pathlib import Path

import pytest

from tests.unit.cli.pfs.seed_commands import play
from trainfeed.cli import main
from trainfeed.compat.paddle.dataset.common import convert


@pytest.fixture
def paddle(home, monkeypatch, capsys):
    """Run a command; return its status, output and messages."""

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["trainfeed", "paddle", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return (ended.value.code or 0, *capsys.readouterr())

    return run


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_document_on_storage_runs_as_it_stands(home):
    play(Path(os.environ["HOME"]), home)


def test_a_part_of_a_set_is_copied_without_the_manifest(paddle, home):
    convert("./", lambda: iter(range(9)), 3, "p")
    status, _, message = paddle("cp", "p-00000-of-00002", "p-00001-of-00002", "pfs://home")
    assert (status, names(home), message) == (0, ["p-00000-of-00002", "p-00001-of-00002"], "")


def test_a_manifest_that_is_named_is_copied_once(paddle, home):
    convert("./", lambda: iter(range(9)), 1, "p")
    status, output, message = paddle("cp", "p-00000-of-00000", "p.shards.json", "pfs://home")
    assert (status, message) == (0, "")
    assert output.startswith("copied 2 files")


def test_files_without_a_manifest_are_copied_as_they_are(paddle, home):
    Path("p-00000-of-00000").write_text("a")
    assert paddle("cp", "p-*", "pfs://home")[::2] == (0, "")
    assert names(home) == ["p-00000-of-00000"]


def test_a_source_that_is_not_there_is_told_once(paddle, home):
    status, _, message = paddle("cp", "missing-*", "pfs://home")
    assert status == 1
    assert message.count("missing-*") == 1


def test_later_documents_write_pfs_before_the_command(paddle, home):
    assert paddle("pfs", "mkdir", "pfs://home/new")[0] == 0
    assert "pfs://home/new" in paddle("pfs", "ls", "pfs://home/")[1]
    assert paddle("pfs", "rm", "-r", "pfs://home/new")[0] == 0
    assert names(home) == []


def test_nothing_is_copied_to_the_public_area(paddle, home):
    Path("a").write_text("a")
    assert paddle("cp", "a", "pfs://public/")[0] == 1
    assert names(home.parents[1] / "public") == []
