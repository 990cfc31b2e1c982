"""The programs of docs/guides/frameworks.md run as they stand: alone, resumed, and on two ranks."""

import os
import re
import socket
import subprocess
import sys

import pytest

from tests.peers import made
from trainfeed.loader import DataLoader
from trainfeed.readers import open_dataset

TITLES = {
    "torch": "PyTorch",
    "lightning": "Lightning",
    "accelerate": "Hugging Face accelerate",
    "trainer": "Hugging Face Trainer",
    "mixed-precision": "Mixed precision on the CPU",
    "torchdata": "torchdata: StatefulDataLoader",
    "jax": "JAX",
    "tensorflow": "TensorFlow and Keras",
    "paddle": "Paddle",
}
PAGE = (made.ROOT / "docs/guides/frameworks.md").read_text()
SECTIONS = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
PAGES = {name: SECTIONS[title] for name, title in TITLES.items()}
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
PADDLE = ["-m", "paddle.distributed.launch", "--backend", "gloo", "--nproc_per_node", "2"]
ON_RANKS = dict.fromkeys(["accelerate", "lightning", "torch", "torchdata", "trainer"], TORCHRUN)
ON_RANKS["paddle"] = PADDLE
# Runs a program twice, the second time as after a stop; says which samples arrived.
TWICE = """
import runpy, sys
from trainfeed.adapters import passes

seen = []
first = passes.Adapted._pass

def noted(self):
    for batch in first(self):
        seen.extend(batch["visitor"].tolist())
        yield batch

passes.Adapted._pass = noted
for _ in range(2):
    seen.clear()
    runpy.run_path("train.py", run_name="__main__")
    print("seen", len(seen))
"""


@pytest.fixture(scope="module")
def environ(tmp_path_factory):
    """An environment in which the data set ``clicks`` of the pages is published."""
    folder = tmp_path_factory.mktemp("clicks")
    environ = os.environ | {
        "PYTHONPATH": f"{made.ROOT}:{made.ROOT / 'include'}",
        "TRAINFEED_ROOT": str(folder / "root"),
        "TRAINFEED_WORK": str(folder / "work"),
        "TRAINFEED_LANDING": str(folder / "landing"),
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
    }
    for command in ("init", "new clicks", "build clicks/2026-01-01/2026-01-03"):
        run([sys.executable, "-m", "trainfeed", *command.split()], folder, environ)
    return environ


def run(command, folder, environ):
    done = subprocess.run(
        command,
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=540,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def program(name, folder):
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGES[name], re.MULTILINE | re.DOTALL)
    assert blocks
    (folder / "train.py").write_text("\n".join(blocks))


def num_batches(environ):
    """Full batches of 16 that an epoch has."""
    data = open_dataset(
        "clicks", interval="2026-01-01/2026-01-03", split="train", root=environ["TRAINFEED_ROOT"]
    )
    return len(DataLoader(data, 16, tail="drop"))


@pytest.mark.parametrize("name", PAGES)
def test_a_program_runs_and_goes_on_where_it_was_saved(name, environ, tmp_path):
    """Three epochs first; then what comes after the last state that was saved."""
    program(name, tmp_path)
    said = run([sys.executable, "-c", TWICE], tmp_path, environ)
    first, second = [int(n) // 16 for n in re.findall(r"^seen (\d+)$", said, re.MULTILINE)]
    each = num_batches(environ)
    saved_every = 5
    fitted = 2 * each if name == "tensorflow" else 0
    assert first == 3 * each + fitted
    if name in {"lightning", "trainer"}:
        assert second < first
    else:
        assert second == each - each // saved_every * saved_every + fitted


@pytest.mark.parametrize("name", [name for name in PAGES if name not in {"lightning", "trainer"}])
def test_a_program_that_was_saved_with_the_last_batch_has_no_epoch_left(name, environ, tmp_path):
    """Such a state stands at the head of the next epoch; what counts epochs has to know it."""
    program(name, tmp_path)
    each = num_batches(environ)
    train = tmp_path / "train.py"
    saved_last = train.read_text().replace("% 5 == 4", f"% {each} == {each - 1}")
    assert saved_last != train.read_text()
    train.write_text(saved_last)
    said = run([sys.executable, "-c", TWICE], tmp_path, environ)
    first, second = [int(n) // 16 for n in re.findall(r"^seen (\d+)$", said, re.MULTILINE)]
    fitted = 2 * each if name == "tensorflow" else 0
    assert (first, second) == (3 * each + fitted, fitted)


@pytest.mark.parametrize("name", ON_RANKS)
def test_a_program_runs_on_two_ranks(name, environ, tmp_path):
    program(name, tmp_path)
    run([sys.executable, *ON_RANKS[name], "train.py"], tmp_path, environ)


def test_the_program_for_jax_runs_on_two_processes(environ, tmp_path):
    program("jax", tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        coordinator = f"127.0.0.1:{taken.getsockname()[1]}"
    ranks = []
    for rank in range(2):
        mine = environ | {"COORDINATOR": coordinator, "WORLD_SIZE": "2", "RANK": str(rank)}
        mine |= {"JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo", "JAX_PLATFORMS": "cpu"}
        ranks.append(
            subprocess.Popen(
                [sys.executable, "train.py"],
                cwd=tmp_path,
                env=mine,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    told = [rank.communicate(timeout=540)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], told
    assert (tmp_path / "checkpoint.json").exists()
