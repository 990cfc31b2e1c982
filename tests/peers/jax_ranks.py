"""A process of JAX that gives its share of arrays of all processes, from the saved state on."""

import json
import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tests.peers import made
from tests.peers.rank import Asked, Notes
from trainfeed import adapters
from trainfeed.errors import ConfigError

ASKED = Asked.of_argv()


def part_of_process(array):
    return np.concatenate([shard.data for shard in array.addressable_shards])


jax.distributed.initialize(os.environ["COORDINATOR"], 2, int(os.environ["RANK"]))
rank, world_size = jax.process_index(), jax.process_count()
rows = NamedSharding(Mesh(jax.devices(), "rows"), PartitionSpec("rows"))
try:
    next(iter(adapters.jax(made.loader(ASKED.path, rank, world_size), device=rows)))
except ConfigError as error:  # the last batch may be shorter on one of them
    assert 'tail="drop"' in str(error), error  # noqa: PT017 - a program, not a test
else:
    raise AssertionError("expected an error: the processes would not agree on the last shape")
loader = made.loader(ASKED.path, rank, world_size, tail="pad")
batches = adapters.jax(loader, device=rows)
total = jax.jit(jnp.sum)
notes, state = Notes(ASKED, rank), ASKED.folder / "state.json"
if state.exists():
    batches.load_state_dict(json.loads(state.read_text()))
for _ in range(loader.due.epoch, 2):
    for batch in batches:
        mine, valid = (part_of_process(batch[name]) for name in ("id", "valid"))
        assert batch["id"].shape == (len(mine) * world_size,)
        notes.add(mine[valid].tolist())
        if rank == 0 and notes.num_steps == ASKED.saved:
            state.write_text(json.dumps(batches.state_dict()))
        total(batch["label"]).block_until_ready()  # the ranks wait for each other
