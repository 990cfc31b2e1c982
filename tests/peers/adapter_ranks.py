"""A rank of torch.distributed that reads its share: by the adapter, or by torchdata over it."""

import json

import torch.distributed as dist
from torchdata.stateful_dataloader import StatefulDataLoader

from tests.peers import made
from tests.peers.rank import Asked, Notes
from trainfeed import adapters

ASKED = Asked.of_argv()
dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
loader = made.loader(ASKED.path, rank, world_size)
batches = adapters.torch(loader)
if ASKED.more == ("torchdata",):
    batches = StatefulDataLoader(batches, batch_size=None)
notes, state = Notes(ASKED, rank), ASKED.folder / "state.json"
epoch = 0
if state.exists():
    epoch, saved = json.loads(state.read_text())
    batches.load_state_dict(saved)
for _ in range(epoch, 2):
    for batch in batches:
        notes.add(batch["id"].tolist())
        if rank == 0 and notes.num_steps == ASKED.saved:
            due = loader.state_dict()["epoch"]
            state.write_text(json.dumps([due, batches.state_dict()]))
        dist.barrier()
dist.destroy_process_group()
