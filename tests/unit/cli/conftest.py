"""The small data set of the build tests, and commands on it."""

import pytest

from tests.unit.pipeline.conftest import project
from trainfeed.cli import main

__all__ = ["cli", "project"]


@pytest.fixture
def cli(project, monkeypatch, capsys):
    """Run a command in this process; return its status, output and messages."""
    for name, value in {
        "ROOT": project.env.root,
        "LANDING": project.env.landing,
        "WORK": project.env.work,
        "KAFKA": f"recorded:{project.path / 'recorded'}",
        "DATASETS": str(project.env.datasets),
    }.items():
        monkeypatch.setenv(f"TRAINFEED_{name}", value)

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["trainfeed", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return (ended.value.code or 0, *capsys.readouterr())

    return run
