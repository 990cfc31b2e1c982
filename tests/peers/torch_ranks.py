"""Wirings of torch and accelerate, run by every rank; rank 0 prints the result of each."""

import sys

import torch.distributed as dist
import torch.utils.data
from accelerate import Accelerator, DataLoaderConfiguration

from tests.peers import made
from trainfeed import adapters
from trainfeed.errors import ConfigError

SAID = {
    "in place of prepare": "in place of prepare()",
    "rank and world_size": "write trainfeed.DataLoader(…, rank=",
}
(_, path) = sys.argv
whole = Accelerator(cpu=True)
rank, world_size = dist.get_rank(), dist.get_world_size()
each = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(dispatch_batches=False))


def torchs(batches):
    return torch.utils.data.DataLoader(batches, batch_size=None)


def mine(**options):
    return made.loader(path, rank, world_size, **options)


def full(**options):
    return made.loader(path, **options)


CASES = {
    "torch over ranks": lambda: torchs(adapters.torch(mine())),
    "torch, every rank all samples": lambda: adapters.torch(full()),
    "torch, every rank all samples, as asked": lambda: adapters.torch(full(), check_ranks=False),
    "torch, the same rank twice": lambda: adapters.torch(made.loader(path, 0, world_size)),
    "accelerate over ranks": lambda: whole.prepare(adapters.accelerate(mine(), whole)),
    "accelerate, prepared, of all samples": lambda: whole.prepare(torchs(adapters.torch(full()))),
    "accelerate, dispatched, over ranks": lambda: whole.prepare(torchs(adapters.torch(mine()))),
    "accelerate, each its own, over ranks": lambda: each.prepare(torchs(adapters.torch(mine()))),
}

for name, wire in CASES.items():
    try:
        result = made.ids(wire())
    except ConfigError as error:
        result = [part for part, words in SAID.items() if words in str(error)] or [str(error)]
    gathered = [None] * world_size
    dist.all_gather_object(gathered, result)
    refused = {str(part[0]) for part in gathered if isinstance(part[0], str)}
    if rank == 0:
        told = f"refused: {' / '.join(refused)}" if refused else str(made.counts(*gathered))
        sys.stdout.write(f"case {name}: {told}\n")
dist.destroy_process_group()
