"""A root that is misspelt or not mounted stops every operation that writes, and is not changed."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.pipeline.clicks import Project
from tests.unit.pipeline.test_concurrent import run_until
from trainfeed.errors import RootError
from trainfeed.pipeline import Build
from trainfeed.pipeline.leftovers import sweep
from trainfeed.pipeline.preprocess import preprocess
from trainfeed.pipeline.preview import dry_run, preview
from trainfeed.readers import open_dataset
from trainfeed.training.launch import train
from trainfeed.upkeep.retention import Context, prune
from trainfeed.versions.root import ROOT_MARKER, init_root

DAY = "2024-03-01"


def everything(folder):
    """Every path below, with what changes when it is touched."""
    found = sorted(path for path in folder.rglob("*") if path.name != ROOT_MARKER)
    return {path: (path.lstat().st_mtime_ns, path.lstat().st_mode) for path in found}


def misspelt(project):
    """The same project, whose root is a folder that nobody has made."""
    env = replace(project.env, root=str(project.path / "rot"))
    return Project(project.path, env)


def test_versions_that_are_there_stay_untouched_when_their_root_is_taken(project):
    project.build()
    root = Path(project.env.root)
    (root / ROOT_MARKER).unlink()
    before = everything(root)
    assert init_root(root)[1]
    assert everything(root) == before
    assert project.build()["verdict"] == "identical"


WRITERS = {
    "build": lambda p: p.build(),
    "dry run": lambda p: dry_run(p.spec, p.interval(), p.env),
    "preview": lambda p: preview(p.spec, p.interval(), p.env, limit=10),
    "train": lambda p: train(p.spec, p.env, p.interval()),
    "gc": lambda p: sweep(p.env),
    "prune": lambda p: prune(Context.of(p.spec, p.env)),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_misspelt_root_is_named_with_the_one_command_and_nothing_is_made(project, writer):
    spec = project.env.datasets / "clicks" / "dataset.yaml"
    spec.write_text(spec.read_text() + 'train: {entry: "preprocess:clicks"}\n')
    wrong = misspelt(project)
    before = everything(project.path)
    with pytest.raises(RootError) as caught:
        WRITERS[writer](wrong)
    message = str(caught.value)
    assert f"expected TRAINFEED_ROOT to name a publication root, got {wrong.env.root}" in message
    assert "there is no such folder" in message
    assert message.endswith(f"trainfeed init {wrong.env.root}")
    assert everything(project.path) == before


def test_an_empty_folder_where_a_file_system_should_be_mounted_is_no_root(project):
    wrong = misspelt(project)
    Path(wrong.env.root).mkdir()
    with pytest.raises(RootError, match="holds no data set"):
        wrong.build()
    assert list(Path(wrong.env.root).iterdir()) == []


def test_a_root_that_is_unmounted_between_two_stages_is_named(project):
    ref = run_until(project, preprocess)
    Path(project.env.root).rename(project.path / "unmounted")
    with pytest.raises(RootError, match="expected TRAINFEED_ROOT"):
        preprocess(Build(project.spec, project.env, ref), 0)
    assert not Path(project.env.root).exists()


def test_a_root_of_versions_without_a_marker_is_read_but_not_built_in(project):
    project.build()
    root = Path(project.env.root)
    (root / ROOT_MARKER).unlink()
    read = open_dataset("clicks", interval=DAY, split="train", root=root).reader(
        rank=0, world_size=1
    )
    assert next(iter(read()))
    with pytest.raises(RootError, match="it holds 1 data set but no") as caught:
        project.build()
    assert f"take it as it is: trainfeed init {root}" in str(caught.value)
