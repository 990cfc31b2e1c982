"""A version of another day, data set or generation in the place of one, and files of any size."""

import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys

import pytest

from tests.unit.pipeline.conftest import project
from tests.unit.pipeline.test_kill import ROOT
from trainfeed import open_dataset
from trainfeed.cli import main
from trainfeed.errors import FormatError
from trainfeed.loader import open_intervals
from trainfeed.versions import Version

__all__ = ["project"]

DAY, NEXT = "2024-03-01", "2024-03-02"


@pytest.fixture
def built(project):
    project.prebuilt(DAY)
    project.prebuilt(NEXT)
    return project


def rewrite(path, **changes):
    """Change fields of a manifest, and the digest that vouches for it."""
    manifest = json.loads((path / "MANIFEST.json").read_bytes()) | changes
    data = json.dumps(manifest).encode()
    for name, text in [
        ("MANIFEST.json", data),
        ("MANIFEST.sha256", hashlib.sha256(data).hexdigest().encode()),
    ]:
        (path / name).unlink()
        (path / name).write_bytes(text)


def other_day(built):
    path = built.folder.version(NEXT, 1)
    shutil.rmtree(path)
    shutil.copytree(built.folder.version(DAY, 1), path)
    return "interval '2024-03-02', the manifest says '2024-03-01'"


def other_dataset(built):
    rewrite(built.folder.version(NEXT, 1), dataset="orders")
    return "dataset 'clicks', the manifest says 'orders'"


def other_generation(built):
    rewrite(built.folder.version(NEXT, 1), generation=3)
    return "generation 1, the manifest says 3"


def a_link(built):
    path = built.folder.version(NEXT, 1)
    path.rename(path.parent / "elsewhere")
    path.symlink_to("elsewhere")
    return "got a symbolic link"


def verify(built):
    raise next(Version.resolve(built.folder, NEXT).problems())


READERS = {
    "verify": verify,
    "open_dataset": lambda built: open_dataset(
        "clicks", interval=NEXT, split="train", root=built.env.root
    ),
    "range": lambda built: open_dataset(
        "clicks", interval=f"{DAY}/{NEXT}", split="train", root=built.env.root
    ),
    "path": lambda built: open_dataset(built.folder.version(NEXT, 1), split="train"),
    "open_intervals": lambda built: open_intervals(
        "clicks", [DAY, NEXT], split="train", root=built.env.root
    ),
    "planner": lambda built: built.build(NEXT),
}


@pytest.mark.parametrize("damage", [other_day, other_dataset, other_generation, a_link])
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_version_in_the_place_of_another_is_refused(built, read, damage):
    message = damage(built)
    with pytest.raises(FormatError, match=message) as caught:
        read(built)
    assert str(built.folder.version(NEXT, 1)) in str(caught.value)


def test_the_command_finds_it_and_goes_on_with_the_others(built, monkeypatch, capsys):
    message = other_day(built)
    monkeypatch.setenv("TRAINFEED_ROOT", built.env.root)
    monkeypatch.setenv("TRAINFEED_DATASETS", str(built.env.datasets))
    monkeypatch.setattr("sys.argv", ["trainfeed", "verify", "clicks"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 3
    said = " ".join("".join(capsys.readouterr()).split())
    assert message in said


def test_a_version_that_was_copied_elsewhere_is_opened_by_its_path(built, tmp_path):
    copy = shutil.copytree(built.folder.version(DAY, 1), tmp_path / "copy")
    assert list(Version.open(copy).problems()) == []
    (tmp_path / "latest").symlink_to(copy)
    assert Version.open(tmp_path / "latest").manifest == Version.open(copy).manifest


def test_hours_and_minutes_are_compared_as_their_folders_are_named(built, tmp_path):
    source = built.folder.version(DAY, 1)
    for name, start in [("2024-03-01T05", "05:00"), ("2024-03-01T0510", "05:10")]:
        path = tmp_path / "clicks" / "versions" / name / "g0001"
        shutil.copytree(source, path)
        rewrite(path, interval={"start": f"2024-03-01T{start}:00Z", "end": "2024-03-01T06:00:00Z"})
        assert Version.open(path).manifest.interval.start.startswith("2024-03-01T05")
        rewrite(path, interval={"start": "2024-03-01T04:10:00Z", "end": "2024-03-01T06:00:00Z"})
        with pytest.raises(FormatError, match=f"interval '{name}'"):
            Version.open(path)


@pytest.mark.parametrize("name", ["MANIFEST.json", "MANIFEST.sha256"])
def test_a_manifest_of_20_gb_is_refused_in_bounded_memory(built, name):
    path = built.folder.version(NEXT, 1)
    (path / name).chmod(0o644)
    os.truncate(path / name, 20 << 30)
    ended = bounded(f"open_dataset({str(path)!r}, split='train')")
    assert ended.returncode == 7, ended.stderr
    assert "21474836480" in ended.stdout
    assert "at most" in ended.stdout


def test_an_index_that_grew_is_refused_before_it_is_read(built):
    path = built.folder.version(NEXT, 1)
    (path / "CHUNKS.arrow").chmod(0o644)
    os.truncate(path / "CHUNKS.arrow", 20 << 30)
    ended = bounded(f"next(open_dataset({str(path)!r}, split='train').reader()())")
    assert ended.returncode == 7, ended.stderr
    assert "got 21474836480" in ended.stdout


def bounded(expression):
    """Evaluate in a process with 2 GiB of memory; an error of ours ends it with status 7."""
    code = (
        "import sys\n"
        "from trainfeed import open_dataset\n"
        "from trainfeed.errors import TrainFeedError\n"
        f"try:\n    {expression}\n"
        "except TrainFeedError as error:\n    print(error)\n    sys.exit(7)\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(ROOT / "include")},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (2 << 30, 2 << 30)),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
