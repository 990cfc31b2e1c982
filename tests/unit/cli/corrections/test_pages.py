"""The commands of docs/operations/withdraw.md and docs/guides/tags.md print what stands there."""

import io
import re
import shlex
import shutil
from contextlib import redirect_stderr, redirect_stdout
from datetime import date

import pytest

from examples.flights.events import read_events, select_days
from examples.flights.lookups import write_lookups
from examples.flights.recording import record
from services._home import REPOSITORY
from tests.docs.printed import printed_by, require_same
from trainfeed.cli import main
from trainfeed.versions import init_root

WITHDRAW = "docs/operations/withdraw.md"
TAGS = "docs/guides/tags.md"
FLIGHTS = REPOSITORY / "data/nycflights13"
# Of a shell; in @prod#1 there is none.
_COMMENT = re.compile(r"\s# .*")
DAYS = (date(2013, 1, 1), date(2013, 1, 3))


@pytest.fixture
def shell(monkeypatch):
    """Run a command line in this process; return its status and all that it prints."""

    def run(line):
        monkeypatch.setattr("sys.argv", shlex.split(_COMMENT.sub("", line)))
        printed = io.StringIO()
        with redirect_stdout(printed), redirect_stderr(printed), pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0, printed.getvalue()

    return run


def test_the_page_on_withdrawals(cli, project, shell):
    project.prebuilt()
    project.edit("seed: 7", "seed: 8")
    project.prebuilt(rebuild="another seed")
    cli("tag", "clicks", "2024-03-01", "prod", "--why", "release")
    commands = printed_by(WITHDRAW)
    assert len(commands) >= 4
    for each in commands:
        require_same(each, shell)


@pytest.fixture
def flights(tmp_path, monkeypatch):
    """Three days of flights, which are all that the data set of this test has."""
    folder = tmp_path / "datasets" / "flights"
    shutil.copytree(REPOSITORY / "include/datasets/flights", folder)
    text = (folder / "dataset.yaml").read_text()
    (folder / "dataset.yaml").write_text(text.replace("end: 2014-01-01", "end: 2013-01-03"))
    write_lookups(FLIGHTS, folder)
    events = select_days(read_events(FLIGHTS), DAYS[0], DAYS[-1], following=200)
    record(events, tmp_path / "recorded", topic="flights")
    init_root(tmp_path / "root")
    for name, value in {
        "ROOT": tmp_path / "root",
        "LANDING": tmp_path / "landing",
        "WORK": tmp_path / "work",
        "KAFKA": f"recorded:{tmp_path / 'recorded'}",
        "DATASETS": tmp_path / "datasets",
    }.items():
        monkeypatch.setenv(f"TRAINFEED_{name}", str(value))


@pytest.mark.usefixtures("flights")
def test_the_page_on_tags(shell):
    shell("trainfeed build flights/2013-01-01/2013-01-03 --training none")
    commands = printed_by(TAGS)
    assert len(commands) >= 15
    for each in commands:
        require_same(each, shell)
