"""A rank of paddle.distributed that trains on its share, from the saved state on."""

import json

import paddle

from tests.peers import made
from tests.peers.rank import Asked, Notes
from trainfeed import adapters

ASKED = Asked.of_argv()
paddle.distributed.init_parallel_env()
rank, world_size = paddle.distributed.get_rank(), paddle.distributed.get_world_size()
loader = made.loader(ASKED.path, rank, world_size)
batches = adapters.paddle(loader)
model = paddle.DataParallel(paddle.nn.Linear(4, 1))
notes, state = Notes(ASKED, rank), ASKED.folder / "state.json"
if state.exists():
    batches.load_state_dict(json.loads(state.read_text()))
for _ in range(loader.due.epoch, 2):
    for batch in batches:
        notes.add(batch["id"].tolist())
        if rank == 0 and notes.num_steps == ASKED.saved:
            state.write_text(json.dumps(batches.state_dict()))
        # The ranks wait for each other here, to add up their gradients.
        (model(batch["x"])[:, 0] - batch["label"]).square().mean().backward()
        model.clear_gradients()
