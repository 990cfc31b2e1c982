"""Programs on two ranks: every sample once an epoch, and exact after all ranks were killed."""

import os
import socket
import subprocess
import sys

import pytest

from tests.peers import made
from tests.peers.rank import Asked

EPOCHS = 2
# Steps of a rank, 16 an epoch: the one after which the state is saved, and the one at which all
# ranks die; at the end of the first epoch, and within the second one.
PLACES = [(16, 19), (21, 24)]
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
PADDLE = ["-m", "paddle.distributed.launch", "--backend=gloo", "--nproc_per_node=2"]
# The launcher of a program of this folder, the program, and what it is told beside the rest.
PROGRAMS = {
    "torch": (TORCHRUN, "adapter_ranks.py"),
    "torchdata": (TORCHRUN, "adapter_ranks.py", "torchdata"),
    "accelerate": (TORCHRUN, "accelerate_ranks.py"),
    "lightning": (TORCHRUN, "lightning_ranks.py"),
    "trainer": (TORCHRUN, "trainer_ranks.py"),
    "jax": ([], "jax_ranks.py"),
    "paddle": (PADDLE, "paddle_ranks.py"),
}
ENVIRON = {
    "PYTHONPATH": f"{made.ROOT}:{made.ROOT / 'include'}",
    "GLOO_SOCKET_IFNAME": "lo",
    "OMP_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "JAX_PLATFORMS": "cpu",
    "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo",
}


def started(launcher, script, asked, environ):
    return subprocess.Popen(
        [sys.executable, *launcher, str(made.ROOT / "tests/peers" / script), *asked.arguments()],
        cwd=asked.notes,
        env=os.environ | ENVIRON | environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finished(name, asked):
    """Run a program on two ranks; return whether all went well, and what they said."""
    launcher, script, *_ = PROGRAMS[name]
    asked.notes.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        coordinator = f"127.0.0.1:{taken.getsockname()[1]}"
    ranks = ["0"] if launcher else ["0", "1"]  # a launcher starts the ranks itself
    told = [{} if launcher else {"COORDINATOR": coordinator, "RANK": rank} for rank in ranks]
    begun = [started(launcher, script, asked, each) for each in told]
    said = "".join(each.communicate(timeout=540)[0] for each in begun)
    return not any(each.returncode for each in begun), said


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(("saved", "dies_at"), PLACES)
def test_two_ranks_get_every_sample_once_and_go_on_exactly(path, tmp_path, name, saved, dies_at):
    (folder := tmp_path / "saved").mkdir()
    more = PROGRAMS[name][2:]
    cut = Asked(path, folder, tmp_path / "cut", saved, dies_at, more)
    went_well, said = finished(name, cut)
    assert not went_well, said
    rest = Asked(path, folder, tmp_path / "rest", saved, 0, more)
    went_well, said = finished(name, rest)
    assert went_well, said
    seen = [[cut.noted(rank)[:saved], rest.noted(rank)] for rank in range(2)]
    assert [begun + gone_on for begun, gone_on in seen] == [batches(path, rank) for rank in (0, 1)]
    every = [n for of_rank in seen for part in of_rank for batch in part for n in batch]
    assert made.counts(every) == {EPOCHS: made.NUM_SAMPLES}


def batches(path, rank):
    """The ids in the batches of a rank whose loader nothing wraps, over all epochs."""
    with made.loader(path, rank, 2) as loader:
        return [batch["id"].tolist() for _ in range(EPOCHS) for batch in loader]
