"""The program of docs/guides/train-py.md as a job of two ranks, one of which is killed."""

import json
import os
import re
import subprocess
import sys

import pytest

from tests.peers import made

PAGE = made.ROOT / "docs/guides/train-py.md"
PROGRAM = re.compile(r'```python title="torch_train\.py"\n(.*?)```', re.DOTALL)
KILLED_AT = 37


@pytest.fixture
def clicks(tmp_path):
    """A new data set that trains by the program of the page, built; and how to run a command."""
    environ = os.environ | {
        "PYTHONPATH": f"{made.ROOT}:{made.ROOT / 'include'}",
        "TRAINFEED_DATA": str(tmp_path / "data"),
        "TRAINFEED_DATASETS": str(tmp_path / "datasets"),
        "OMP_NUM_THREADS": "1",
    }

    def run(command, **more):
        done = subprocess.run(
            [sys.executable, "-m", "trainfeed", *command.split()],
            cwd=tmp_path,
            env=environ | more,
            capture_output=True,
            text=True,
            timeout=540,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    for command in ("init", "new clicks"):
        assert run(command)[0] == 0
    folder = tmp_path / "datasets" / "clicks"
    (program,) = PROGRAM.findall(PAGE.read_text())
    (folder / "torch_train.py").write_text(program)
    (folder / "train.py").unlink()
    yaml = (folder / "dataset.yaml").read_text()
    training = 'train: {entry: "torch_train:main", ranks: 2}\n'
    changed, times = re.subn(r"(?m)^train:\n(?: .*\n)+", training, yaml)
    assert times == 1
    (folder / "dataset.yaml").write_text(changed)
    status, said = run("build clicks --interval 2026-01-01")
    assert status == 0, said
    return run


def curve(home):
    lines = [json.loads(line) for line in (home / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if "step" in line]


def test_two_ranks_of_torch_go_on_at_their_checkpoint_after_a_kill(clicks, tmp_path):
    faults = f"train.step{KILLED_AT}:kill:{tmp_path}"
    status, said = clicks("train clicks --interval 2026-01-01", TRAINFEED_FAULTS=faults)
    assert status, said
    (home,) = (tmp_path / "data").glob("**/training/2026-01-01/clicks-*")
    assert len(curve(home)) == KILLED_AT
    status, said = clicks("train clicks --interval 2026-01-01")
    assert status == 0, said
    result = json.loads((home / "result.json").read_text())
    assert result["recomputed"]["steps"] == KILLED_AT % 10
    found = curve(home)
    assert [line["step"] for line in found] == list(range(1, int(result["metrics"]["steps"]) + 1))
    assert found[-1]["loss"] < found[0]["loss"]
    assert list(result["files"]) == ["model.pt"]
