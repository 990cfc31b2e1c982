"""The command line: results on standard output, messages on the other, status by kind of error."""

import errno
import json
from pathlib import Path

import pytest

from tests.unit.build.test_kill import command as build_command
from trainfeed.cli import main


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


def test_a_build_prints_its_report_as_json(cli, project):
    status, output, _ = cli("build", "clicks", "--interval", "2024-03-01", "--json")
    report = json.loads(output)
    assert status == 0
    assert report["content_digest"] == project.version().manifest.content_digest
    assert list(report["seconds"]) == [
        "check",
        "convert",
        "ingest",
        "plan",
        "preprocess",
        "publish",
    ]


def test_a_version_is_listed_shown_and_verified(cli, project):
    project.build()
    status, output, _ = cli("ls", "clicks", "--json")
    assert (status, json.loads(output)[0]["interval"]) == (0, "2024-03-01")
    assert json.loads(cli("ls", "--json")[1]) == ["clicks"]
    assert "2024-03-01" in cli("ls", "clicks")[1]
    status, output, _ = cli("show", "clicks/2024-03-01", "--json")
    assert json.loads(output)["fingerprint"] == project.version().manifest.fingerprint
    assert "filtered" in cli("show", "clicks/2024-03-01/g0001")[1]
    status, output, _ = cli("verify", "clicks/2024-03-01")
    assert (status, output) == (0, "clicks/2024-03-01 is intact\n")


def test_damage_ends_with_status_3_and_names_the_file(cli, project):
    project.build()
    path = project.version().path / "statistics.json"
    path.chmod(0o644)
    path.write_bytes(b"{}")
    status, output, _ = cli("verify", "clicks/2024-03-01")
    assert status == 3
    assert "statistics.json" in output


def test_a_damaged_manifest_ends_with_status_3(cli, project):
    project.build()
    path = project.version().path / "MANIFEST.json"
    path.chmod(0o644)
    path.write_bytes(path.read_bytes() + b" ")
    status, _, message = cli("show", "clicks/2024-03-01")
    assert status == 3
    assert message.startswith("ChecksumError: expected a manifest with SHA-256")


def test_without_a_root_there_is_nothing_to_list(cli, project):
    Path(project.env.root).rmdir()
    assert cli("ls", "--json") == (0, "[]\n", "")
    assert cli("ls", "clicks", "--json") == (0, "[]\n", "")


def test_a_root_that_is_no_folder_is_named(cli, project):
    Path(project.env.root).rmdir()
    Path(project.env.root).touch()
    status, output, message = cli("ls")
    assert (status, output) == (1, "")
    assert message.startswith(f"NotFoundError: {project.env.root}: not a directory")


def test_damage_of_several_kinds_is_reported_in_one_run(cli, project):
    project.build()
    first, *_, last = project.version().shard_paths("train")
    first.rename(first.with_name("elsewhere"))
    first.symlink_to("elsewhere")
    last.unlink()
    status, output, _ = cli("verify", "clicks/2024-03-01")
    assert status == 3
    assert "expected a plain file" in output
    assert "is missing" in output


def test_an_error_of_the_system_is_one_message_and_status_1(cli, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied", "/there")

    monkeypatch.setattr("trainfeed.cli._build.load_spec", refuse)
    status, output, message = cli("build", "clicks", "--interval", "2024-03-01")
    assert (status, output) == (1, "")
    assert message == "PermissionError: [Errno 13] Permission denied: '/there'\n"


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("build", "clicks", "--interval", "2024-03-01T05"), 2, "WindowError"),
        (("build", "klicks", "--interval", "2024-03-01"), 2, "klicks"),
        (("show", "clicks"), 2, "expected NAME/INTERVAL"),
        (("show", "clicks/2024-03-05"), 1, "NotFoundError"),
        (("show", "../clicks/2024-03-05"), 2, "ConfigError"),
        (("train", "clicks", "--interval", "2024-03-01"), 2, "has no training"),
        (("build", "clicks"), 2, "--interval"),
    ],
)
def test_mistakes_have_a_message_and_a_status(cli, arguments, status, message):
    found, output, said = cli(*arguments)
    assert (found, output) == (status, "")
    assert message in said


def test_the_module_runs_as_a_program(project):
    done = build_command(project)
    assert done.returncode == 0
    assert "g0001" in done.stdout
