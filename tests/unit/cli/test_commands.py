"""The command line: results on standard output, messages on the other, status by kind of error."""

import errno
import json
import logging
import re
import shutil
import signal
from pathlib import Path

import pytest

from tests.unit.pipeline.test_kill import command as build_command
from trainfeed.cli.printing import program
from trainfeed.errors import AccessDeniedError
from trainfeed.specification import json_schema
from trainfeed.versions.root import ROOT_MARKER


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
    project.prebuilt()
    status, output, _ = cli("ls", "clicks", "--json")
    assert (status, json.loads(output)[0]["interval"]) == (0, "2024-03-01")
    assert [row["dataset"] for row in json.loads(cli("ls", "--json")[1])] == ["clicks"]
    assert "2024-03-01" in cli("ls", "clicks")[1]
    status, output, _ = cli("show", "clicks/2024-03-01", "--json")
    assert json.loads(output)["fingerprint"] == project.version().manifest.fingerprint
    assert "filtered" in cli("show", "clicks/2024-03-01/g0001")[1]
    status, output, _ = cli("verify", "clicks/2024-03-01")
    assert (status, output) == (0, "clicks/2024-03-01 is intact\n")


def test_a_version_is_shown_with_each_fact_once(cli, project):
    project.prebuilt()
    shown = cli("show", "clicks/2024-03-01")[1]
    names = [line.split("│")[1].strip() for line in shown.splitlines() if line.startswith("│")]
    assert len(set(names)) == len(names)
    manifest = project.version().manifest
    assert f"{manifest.quarantine['records']} (not_json {manifest.quarantine['records']})" in shown
    assert "2024-03-01T00:00:00Z to 2024-03-02T00:00:00Z" in shown
    assert "late" not in names
    assert max(len(line) for line in shown.splitlines()) < 160


def test_damage_ends_with_status_3_and_names_the_file(cli, project):
    project.prebuilt()
    path = project.version().path / "statistics.json"
    path.chmod(0o644)
    path.write_bytes(b"{}")
    status, output, _ = cli("verify", "clicks/2024-03-01")
    assert status == 3
    assert "statistics.json" in output


def deny(monkeypatch, name):
    """Refuse to open files of that name, as for an account that is not their owner."""
    from trainfeed.files import open_plain
    from trainfeed.versions import publication as _intact

    def refused(path, **how):
        if path.name == name:
            raise AccessDeniedError(f"{path}: permission denied")
        return open_plain(path, **how)

    monkeypatch.setattr(_intact, "open_plain", refused)


def test_a_file_that_cannot_be_read_is_not_called_damaged(cli, project, monkeypatch):
    project.build()
    deny(monkeypatch, "records.arrow")
    for target in ("clicks", "clicks/2024-03-01"):
        status, output, message = cli("verify", target)
        assert status == 1
        assert output.startswith("could not be read: ")
        assert output.endswith("quarantine/records.arrow: permission denied\n")
        assert "rebuild" not in message
    status, output, _ = cli("verify", "clicks/2024-03-01", "--json")
    report = json.loads(output)
    assert (status, report["problems"], len(report["unreadable"])) == (1, [], 1)


def test_damage_beside_what_cannot_be_read_is_damage(cli, project, monkeypatch):
    project.build()
    path = project.version().path / "statistics.json"
    path.chmod(0o644)
    path.write_bytes(b"{}")
    deny(monkeypatch, "records.arrow")
    status, output, message = cli("verify", "clicks")
    assert status == 3
    assert len(output.splitlines()) == 2
    assert "--rebuild" in message


def test_a_version_that_cannot_be_opened_does_not_hide_the_others(cli, project, monkeypatch):
    project.build()
    project.build("2024-03-02")
    from trainfeed.versions import Version

    open_version = Version.open.__func__

    def refused(cls, path):
        if path.parent.name == "2024-03-01":
            raise AccessDeniedError(f"{path}: permission denied")
        return open_version(cls, path)

    monkeypatch.setattr(Version, "open", classmethod(refused))
    status, output, _ = cli("verify", "clicks")
    assert status == 1
    assert output.splitlines()[1] == "clicks/2024-03-02/g0001 is intact"


def test_a_damaged_manifest_ends_with_status_3(cli, project):
    project.prebuilt()
    path = project.version().path / "MANIFEST.json"
    path.chmod(0o644)
    path.write_bytes(path.read_bytes() + b" ")
    status, _, message = cli("show", "clicks/2024-03-01")
    assert status == 3
    assert message.startswith("ChecksumError: expected a manifest with SHA-256")


@pytest.mark.parametrize("broken", [b"{", None])
def test_a_damaged_version_is_named_in_the_list_and_hides_no_other(cli, project, broken):
    project.prebuilt()
    project.prebuilt("2024-03-02")
    path = project.version().path / "MANIFEST.json"
    path.parent.chmod(0o755)
    path.chmod(0o644)
    path.unlink() if broken is None else path.write_bytes(broken)
    for command in ("ls", "show"):
        status, output, message = cli(command, "clicks", "--json")
        rows = json.loads(output)
        assert (status, [row["interval"] for row in rows]) == (3, ["2024-03-01", "2024-03-02"])
        assert "MANIFEST.json" in rows[0]["damaged"]
        assert rows[1]["samples"] > 0
        assert "clicks/2024-03-01 is damaged: " in message
    assert cli("ls", "clicks")[0] == 3


def test_in_an_empty_root_everything_is_still_to_be_built(cli):
    status, output, message = cli("ls", "--json")
    assert (status, message) == (0, "")
    row = {"dataset": "clicks", "intervals": 0, "newest": "", "state": "not built yet"}
    assert json.loads(output) == [row]
    assert cli("ls", "clicks", "--json")[:2] == (0, "[]\n")


def test_a_data_set_without_a_version_is_shown_how_to_get_one(cli, project):
    message = cli("ls", "clicks")[2]
    hint = "build one: trainfeed build clicks --interval I"
    assert message == f"clicks has no published version yet; {hint}\n"


def test_a_version_whose_specification_is_elsewhere_is_listed(cli, project):
    project.prebuilt()
    (project.env.datasets / "clicks" / "dataset.yaml").unlink()
    (row,) = json.loads(cli("ls", "--json")[1])
    assert row["state"] == "published, without a specification here"


def test_a_folder_without_version_and_specification_is_not_called_published(cli, project):
    (project.folder.path / "versions").mkdir(parents=True)
    (project.env.datasets / "clicks" / "dataset.yaml").unlink()
    (row,) = json.loads(cli("ls", "--json")[1])
    assert row["state"] == "not built yet, without a specification here"


def test_folders_that_cannot_be_data_sets_do_not_hide_the_others(cli, project):
    project.prebuilt()
    for name in ("my clicks", ".clicks.0123"):
        shutil.copytree(project.env.datasets / "clicks", project.env.datasets / name)
    for name in ("lost+found", "old clicks"):
        Path(project.env.root, name, "versions").mkdir(parents=True)
    assert [row["dataset"] for row in json.loads(cli("ls", "--json")[1])] == ["clicks"]
    assert cli("ls", "klicks")[2].endswith("did you mean 'clicks'?\n")


def test_a_data_set_that_is_closed_to_this_account_does_not_hide_the_others(
    cli, project, monkeypatch
):
    project.build()
    (project.folder.path.parent / "mine").mkdir()

    def refuse_mine(method):
        def refused(path, **how):
            if "mine" in path.parts:
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return method(path)

        return refused

    for name in ("exists", "is_dir", "is_file", "iterdir"):
        monkeypatch.setattr(Path, name, refuse_mine(getattr(Path, name)))
    rows = {row["dataset"]: row["state"] for row in json.loads(cli("ls", "--json")[1])}
    assert rows == {"clicks": "published", "mine": "closed to this account"}
    assert cli("ls", "klicks")[2].endswith("did you mean 'clicks'?\n")


@pytest.mark.parametrize("command", [("ls", "klicks"), ("verify", "klicks"), ("show", "klicks/x")])
def test_an_unknown_data_set_is_an_error_with_the_nearest_name(cli, command):
    status, output, message = cli(*command)
    assert (status, output) == (1, "")
    assert message.endswith("got 'klicks'; did you mean 'clicks'?\n")


def test_all_versions_of_a_data_set_are_verified_at_once(cli, project):
    project.prebuilt()
    project.prebuilt(rebuild="again")
    project.prebuilt("2024-03-02")
    status, output, _ = cli("verify", "clicks")
    assert status == 0
    assert output.splitlines() == [
        "clicks/2024-03-01/g0001 is intact",
        "clicks/2024-03-01/g0002 is intact",
        "clicks/2024-03-02/g0001 is intact",
    ]
    path = project.version("2024-03-01", 1).path / "MANIFEST.json"
    path.chmod(0o644)
    path.write_bytes(path.read_bytes() + b" ")
    status, output, message = cli("verify", "clicks", "--json")
    assert status == 3
    assert [bool(report["problems"]) for report in json.loads(output)] == [True, False, False]
    assert message == (
        "repair it: trainfeed repair clicks/2024-03-01/g0001; or build it again, as the next"
        " generation: trainfeed build clicks --interval 2024-03-01 --rebuild WHY\n"
    )


def test_without_a_version_there_is_nothing_to_verify(cli):
    status, _, message = cli("verify", "clicks")
    assert status == 1
    assert "has no published version" in message


def test_a_dry_run_is_said_in_lines_or_in_json(cli, project):
    status, output, _ = cli("build", "clicks", "--interval", "2024-03-01", "--dry-run")
    assert status == 0
    assert output.startswith("dry run of clicks/2024-03-01: nothing was written\n")
    output = cli("build", "clicks", "--interval", "2024-03-01", "--dry-run", "--json")[1]
    assert json.loads(output)["publishes"]["version"] == "clicks/2024-03-01/g0001"
    assert [path.name for path in Path(project.env.root).iterdir()] == [ROOT_MARKER]


def test_a_preview_shows_samples_quarantine_statistics_and_gates(cli, project):
    project.edit("split:", "quality: [{check: range, field: label, max: 0}]\nsplit:")
    status, output, _ = cli("build", "clicks", "--interval", "2024-03-01", "--limit", "100")
    assert status == 0
    first, *rest = output.splitlines()
    assert first == (
        "clicks/2024-03-01: 100 records read, samples: 21 eval, 60 train; quarantined: 10 not_json;"
        " filtered: 3 empty, 9 negative; nothing was published"
    )
    tables = [line for line in rest if line and line[0].isalpha()]
    assert tables == [
        "first samples",
        "first quarantined records",
        "statistics",
        "quality gates, on these records alone",
    ]
    assert [path.name for path in Path(project.env.root).iterdir()] == [ROOT_MARKER]


def test_a_preview_is_json_for_scripts(cli):
    output = cli("build", "clicks", "--interval", "2024-03-01", "--limit", "9", "--json")[1]
    assert json.loads(output)["records"] == 9


def test_statistics_of_texts_are_those_of_their_lengths(cli, project):
    project.edit("  label: {dtype: int64}", "  label: {dtype: str}")
    project.edit('"label": n', '"label": "x" * 7', "preprocess.py")
    output = cli("build", "clicks", "--interval", "2024-03-01", "--limit", "9")[1]
    (line,) = (line for line in output.splitlines() if line.startswith("│ label"))
    assert line.count("7 bytes") == 3


def test_a_pipe_gets_whole_lines(cli, project):
    project.prebuilt()
    output = cli("show", "clicks/2024-03-01")[1]
    assert project.version().manifest.fingerprint in output
    assert "…" not in output


def test_remedies_name_the_program_as_it_was_called(cli, monkeypatch):
    message = cli("show", "clicks/2024-03-05")[2]
    assert "build it: trainfeed build clicks --interval 2024-03-05" in message
    monkeypatch.setattr("trainfeed.cli.printing.sys.argv", ["/there/trainfeed/__main__.py"])
    assert program() == "python -m trainfeed"


def test_the_schema_for_editors_is_printed(cli):
    assert json.loads(cli("schema")[1]) == json_schema()


def test_a_new_data_set_builds_with_the_commands_that_are_printed(cli, project):
    status, output, _ = cli("new", "visits")
    assert status == 0
    commands = re.findall(r"^  trainfeed (.*?)(?: +#.*)?$", output, re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["build", "build", "train"]
    for command in commands:
        assert cli(*command.split())[0] == 0
    assert "visits" in cli("ls")[1]


def test_a_root_that_is_no_folder_is_named(cli, project):
    shutil.rmtree(project.env.root)
    Path(project.env.root).touch()
    status, output, message = cli("ls")
    assert (status, output) == (2, "")
    assert f"got {project.env.root}: it is no folder" in message


def test_damage_of_several_kinds_is_reported_in_one_run(cli, project):
    project.prebuilt()
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

    monkeypatch.setattr("trainfeed.cli.named_versions.load_spec", refuse)
    status, output, message = cli("build", "clicks", "--interval", "2024-03-01")
    assert (status, output) == (1, "")
    assert message == "PermissionError: [Errno 13] Permission denied: '/there'\n"


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("build", "clicks", "--interval", "2024-03-01T05"), 2, "WindowError"),
        (("build", "klicks", "--interval", "2024-03-01"), 2, "klicks"),
        (("head", "clicks"), 2, "expected NAME/INTERVAL"),
        (("show", "clicks/2024-03-05"), 1, "NotFoundError"),
        (("show", "../clicks/2024-03-05"), 2, "ConfigError"),
        (("train", "clicks", "--interval", "2024-03-01"), 2, "has no training"),
        (("build", "clicks"), 2, "--interval"),
        (
            ("build", "clicks", "--interval", "2024-03-01", "--dry-run", "--limit", "9"),
            2,
            "got both",
        ),
        (("build", "clicks", "--interval", "2024-03-01", "--limit", "0"), 2, "--limit"),
        (
            ("build", "clicks", "--interval", "2024-03-01", "--limit", "9", "--rebuild", "why"),
            2,
            "expected no --rebuild and no --outdated beside --limit",
        ),
        (("new", "clicks"), 1, "the name is taken"),
        (("new", "Clicks"), 2, "expected a data set name"),
        (("new", "self"), 2, "not reserved"),
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


def test_leftovers_are_named_and_removed(cli, project):
    assert cli("gc") == (0, "removed 0 leftovers, 0 bytes\n", "")
    killed = build_command(project, "check.before_rename")
    assert killed.returncode == -signal.SIGKILL
    assert cli("gc")[1].startswith("removed 0 ")
    status, output, _ = cli("gc", "--older-than", "0", "--dry-run")
    assert status == 0
    assert all(place in output for place in ("_staging/", "/spill/", "/attempts/"))
    assert output.splitlines()[-1].startswith("would remove 3 leftovers, ")
    removed = json.loads(cli("gc", "--older-than", "0", "--json")[1])
    assert len(removed) == 3
    assert all(row["bytes"] and row["place"] in output for row in removed)
    assert json.loads(cli("gc", "--older-than", "0", "--json")[1]) == []
    assert cli("gc", "--older-than", "-1")[0] == 2


# Sets the title of a terminal, clears it, and turns the direction of writing.
HOSTILE = "\x1b]0;title\x07\x1b[2J\u202e"
SPELT_OUT = r"\x1b]0;title\x07\x1b[2J\u202e"


def is_harmless(text):
    return all(character.isprintable() or character == "\n" for character in text)


def run_in_the_function(project, statement):
    project.edit("row = record.json()", f"row = record.json()\n    {statement}", "preprocess.py")


def test_what_a_function_says_of_a_record_does_nothing_to_the_terminal(cli, project):
    run_in_the_function(project, f"raise ValueError({HOSTILE!r})")
    status, _, message = cli("build", "clicks", "--interval", "2024-03-01")
    assert status == 1
    assert f"raised ValueError: {SPELT_OUT} (preprocess.py:" in message
    assert ") at kafka:clicks/0 offset 0; the record: " in message
    assert HOSTILE not in message


def test_an_error_of_many_lines_stays_one_of_many_lines(cli, project):
    project.edit("seed: 7", "sead: 7\nsplits: {}")
    status, _, message = cli("build", "clicks", "--interval", "2024-03-01")
    assert status == 2
    assert len(message.splitlines()) == 2


def test_names_of_files_do_nothing_to_the_terminal(cli, project):
    project.prebuilt()
    (project.version().path / f"{HOSTILE}.arrow").touch()
    status, output, message = cli("verify", "clicks/2024-03-01")
    assert status == 3
    assert f"{SPELT_OUT}.arrow" in output
    assert is_harmless(output + message)


def test_log_lines_do_nothing_to_the_terminal(cli, monkeypatch, capsys):
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    cli("ls")
    logging.getLogger("trainfeed").warning("%s is torn", HOSTILE)
    assert capsys.readouterr().err == f"WARNING {SPELT_OUT} is torn\n"


def test_pairs_are_a_table_without_a_row_of_names(cli, project):
    project.prebuilt()
    output = cli("show", "clicks/2024-03-01")[1]
    first, second, *_ = output.splitlines()
    assert set(first) == set("┌─┬┐")
    assert second.startswith("│ version")


def test_superseded_generations_are_named_and_removed(cli, project):
    project.edit("seed: 7", "seed: 7\nretention: {keep_generations: 1}")
    project.prebuilt()
    assert cli("prune", "clicks") == (0, "clicks: removed nothing\n", "")
    project.prebuilt(rebuild="again")
    status, output, _ = cli("prune", "clicks", "--dry-run")
    assert status == 0
    assert output.splitlines()[-1].startswith("clicks: would remove 1 generations, ")
    ((removed,),) = [each["removed"] for each in json.loads(cli("prune", "clicks", "--json")[1])]
    assert (removed["name"], removed["why"]) == ("2024-03-01/g0001", "keep_generations: 1")
    assert not project.folder.version("2024-03-01", 1).exists()
