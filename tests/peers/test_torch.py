"""Torch's loaders, accelerate and torchdata over one process: every sample once, or an error."""

import subprocess
import sys

import numpy as np
import pytest
import torch.utils.data
from accelerate import Accelerator, DataLoaderConfiguration, skip_first_batches
from torchdata.stateful_dataloader import StatefulDataLoader

from tests.peers import made
from trainfeed import adapters
from trainfeed.compat.paddle.loading import GeneratorLoader
from trainfeed.errors import ConfigError

WIRINGS = {
    "adapter": adapters.torch,
    "DataLoader": lambda loader: torch.utils.data.DataLoader(adapters.torch(loader), None),
    "StatefulDataLoader": lambda loader: StatefulDataLoader(adapters.torch(loader), None),
    "accelerate": lambda loader: adapters.accelerate(loader, Accelerator()),
    "accelerate, stateful": lambda loader: adapters.accelerate(loader, stateful()),
}


def stateful():
    return Accelerator(dataloader_config=DataLoaderConfiguration(use_stateful_dataloader=True))


@pytest.fixture(params=WIRINGS)
def wire(request):
    return WIRINGS[request.param]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_two_epochs_come_in_the_order_of_the_loader(path, wire, num_workers):
    with made.loader(path, num_workers=num_workers) as loader:
        batches = wire(loader)
        assert len(batches) == made.NUM_BATCHES
        assert made.ids(batches) + made.ids(batches) == made.order(path, 2)


@pytest.mark.parametrize("wire", [WIRINGS[name] for name in WIRINGS if name != "DataLoader"][:2])
def test_a_state_is_gone_on_with_exactly(path, wire):
    expected = made.order(path, 2)
    with made.loader(path) as loader, made.loader(path) as other:
        batches = wire(loader)
        begun = [next(it) for it in [iter(batches)] for _ in range(11)]
        resumed = wire(other)
        resumed.load_state_dict(batches.state_dict())
        assert made.ids(begun) + made.ids(resumed) + made.ids(resumed) == expected


def test_the_loaders_state_is_that_of_the_batch_which_torchs_data_loader_gave(path):
    with made.loader(path) as loader, made.loader(path) as other:
        batches = WIRINGS["DataLoader"](loader)
        begun = [next(it) for it in [iter(batches)] for _ in range(11)]
        other.load_state_dict(loader.state_dict())
        assert made.ids(begun) + made.ids(WIRINGS["DataLoader"](other)) == made.order(path)


def test_accelerate_goes_on_exactly_from_what_it_saved(path, tmp_path):
    expected = made.order(path, 2)
    first = stateful()
    with made.loader(path) as loader:
        batches = first.prepare(adapters.accelerate(loader, first))
        begun = [next(it) for it in [iter(batches)] for _ in range(11)]
        first.save_state(tmp_path)
    second = stateful()
    with made.loader(path) as loader:
        batches = second.prepare(adapters.accelerate(loader, second))
        second.load_state(tmp_path)
        assert made.ids(begun) + made.ids(batches) + made.ids(batches) == expected


def test_accelerate_skips_batches_in_a_later_epoch(path):
    with made.loader(path) as loader:
        batches = adapters.accelerate(loader, Accelerator())
        batches.set_epoch(1)
        rest = made.ids(skip_first_batches(batches, 11))
    assert rest == made.order(path, 2)[made.NUM_SAMPLES + 11 * made.BATCH :]


def test_accelerate_counts_on_from_the_epoch_of_a_state(path):
    with made.loader(path) as loader, made.loader(path) as other:
        for _ in range(2):
            made.ids(loader)
        next(iter(loader))
        other.load_state_dict(loader.state_dict())
        rest = made.ids(adapters.accelerate(other, Accelerator()))
    assert rest == made.order(path, 3)[2 * made.NUM_SAMPLES + made.BATCH :]


@pytest.mark.parametrize("make", [torch.utils.data.DataLoader, StatefulDataLoader])
@pytest.mark.parametrize("batch_size", [1, 8])
def test_batches_of_batches_are_refused(path, make, batch_size):
    batches = make(adapters.torch(made.loader(path)), batch_size=batch_size)
    with pytest.raises(ConfigError, match=r"write DataLoader\(batches, batch_size=None\)"):
        next(iter(batches))


class Rows(torch.utils.data.IterableDataset):
    """Takes batches apart, so that torch may make batches of the rows."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        for batch in self.batches:
            yield from batch["id"]


def test_rows_that_a_data_set_of_ones_own_yields_may_be_batched(path):
    data = torch.utils.data.DataLoader(Rows(adapters.torch(made.loader(path))), batch_size=50)
    assert [len(batch) for batch in data] == [50] * 20


def test_accelerate_takes_the_adapter_of_all_samples_on_one_process(path):
    data = torch.utils.data.DataLoader(adapters.torch(made.loader(path)), batch_size=None)
    assert made.counts(made.ids(Accelerator().prepare(data))) == {1: made.NUM_SAMPLES}


def test_a_generator_loader_arrives_as_lists_of_tensors(path):
    def batches():
        for n in range(3):
            yield [np.full((2, 3), n, np.float32), np.array([n, n])]

    loader = GeneratorLoader.from_generator(capacity=2).set_batch_generator(batches)
    adapter = adapters.torch(loader)
    assert [label.tolist() for _, label in adapter] == [[0, 0], [1, 1], [2, 2]]
    data = StatefulDataLoader(adapter, batch_size=None)
    (image, label) = next(iter(data))
    assert (image.shape, label.tolist()) == ((2, 3), [0, 0])
    again = StatefulDataLoader(adapters.torch(loader), batch_size=None)
    again.load_state_dict(data.state_dict())
    assert [label.tolist() for _, label in again] == [[1, 1], [2, 2]]


def test_torch_maps_a_batch_of_the_loader_itself(path):
    batch = next(iter(made.loader(path)))
    moved = torch.utils.data.default_convert(batch)
    assert moved["x"].shape == (made.BATCH, 4)
    assert moved.state == batch.state


TORCH_WORKERS = """
import numpy as np
import torch.utils.data
from trainfeed import adapters
from trainfeed.errors import ConfigError

batches = adapters.torch([{"x": np.arange(3)}])
data = torch.utils.data.DataLoader(
    batches, batch_size=None, num_workers=1, multiprocessing_context="fork"
)
try:
    list(data)
except ConfigError as error:
    print(error)
"""


def test_torchs_workers_are_refused_because_they_would_double_every_batch():
    # Not here: JAX has threads, and forking beside them may end in a deadlock.
    done = subprocess.run(
        [sys.executable, "-c", TORCH_WORKERS], capture_output=True, text=True, check=True
    )
    assert "num_workers=0" in done.stdout


def test_ranks_of_torch_get_every_sample_once_and_wrong_wirings_are_told(path):
    told = made.on_ranks("torch_ranks.py", path).splitlines()
    assert sorted(line for line in told if line.startswith("case ")) == [
        "case accelerate over ranks: {1: 1000}",
        "case accelerate, dispatched, over ranks: refused: in place of prepare",
        "case accelerate, each its own, over ranks: refused: in place of prepare",
        "case accelerate, prepared, of all samples: {1: 1000}",
        "case torch over ranks: {1: 1000}",
        "case torch, every rank all samples, as asked: {2: 1000}",
        "case torch, every rank all samples: refused: rank and world_size",
        "case torch, the same rank twice: refused: rank and world_size",
    ]
