"""A build, a training and a conversion under any umask: other accounts cannot write their files."""

import os
import stat
import subprocess
import sys

import pytest

from tests.unit.pipeline.test_kill import ROOT

TRAIN = """
def train(job):
    (job.output / "model").write_bytes(b"model")
    return {"samples": sum(1 for _ in job.open("train").reader()())}
"""


def run(project, umask, *command):
    """Run Python in the folder of a project under a umask."""
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{ROOT / 'include'}:{ROOT}",
        "TRAINFEED_ROOT": project.env.root,
        "TRAINFEED_LANDING": project.env.landing,
        "TRAINFEED_WORK": project.env.work,
        "TRAINFEED_DATASETS": str(project.env.datasets),
        "TRAINFEED_KAFKA": f"recorded:{project.path / 'recorded'}",
    }
    ended = subprocess.run(
        [sys.executable, *command], env=environ, umask=umask,
        capture_output=True, text=True, check=False, timeout=300, cwd=project.path,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr


@pytest.fixture
def trained(project):
    project.edit("seed: 7", 'seed: 7\ntrain: {entry: "train:train", window: 1}')
    (project.env.datasets / "clicks" / "train.py").write_text(TRAIN)
    return project


@pytest.mark.parametrize("umask", [0o000, pytest.param(0o077, marks=pytest.mark.ci)])
def test_nothing_is_writable_for_others_whatever_the_umask(trained, umask):
    day = "2024-03-01"
    run(trained, umask, "-m", "trainfeed", "build", "clicks", "--interval", day)
    run(trained, umask, "-m", "trainfeed", "train", "clicks", "--interval", day)
    shard = trained.version(day).shard_paths("train")[0]
    out = trained.path / "out" / "deep"
    run(trained, umask, "-m", "trainfeed", "file", "convert", str(shard), "one.jsonl")
    call = f"convert({str(out)!r}, lambda: iter([1, 2]), 2, 'p')"
    run(trained, umask, "-c", f"from trainfeed import convert; {call}")
    found = {
        path.relative_to(trained.path).as_posix(): stat.S_IMODE(path.lstat().st_mode)
        for place in ("root", "landing", "work", "out", "one.jsonl")
        for path in (trained.path / place, *(trained.path / place).rglob("*"))
    }
    found = {name: mode for name, mode in found.items() if not name.endswith("output/model")}
    assert len(found) > 40
    assert {name: oct(mode) for name, mode in found.items() if mode & 0o022} == {}
    # Versions stay readable for the accounts that train.
    version = {name: mode for name, mode in found.items() if "/g0001/" in name}
    assert all(mode & 0o044 for name, mode in version.items() if "quarantine/" not in name)
