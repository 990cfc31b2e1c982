"""A rank of accelerate that reads its share, from the saved state on."""

import torch
from accelerate import Accelerator, DataLoaderConfiguration

from tests.peers import made
from tests.peers.rank import Asked, Notes
from trainfeed import adapters

ASKED = Asked.of_argv()
accelerator = Accelerator(
    cpu=True, dataloader_config=DataLoaderConfiguration(use_stateful_dataloader=True)
)
rank, world_size = accelerator.process_index, accelerator.num_processes
model = torch.nn.Linear(4, 1)
model, optimizer, batches = accelerator.prepare(
    model,
    torch.optim.SGD(model.parameters(), lr=0.01),
    adapters.accelerate(made.loader(ASKED.path, rank, world_size), accelerator),
)
epoch, notes = 0, Notes(ASKED, rank)
if (ASKED.folder / "epoch").exists():
    accelerator.load_state(ASKED.folder)
    epoch = int((ASKED.folder / "epoch").read_text())
for number in range(epoch, 2):
    batches.set_epoch(number)
    for batch in batches:
        notes.add(batch["id"].tolist())
        accelerator.backward((model(batch["x"])[:, 0] - batch["label"]).square().mean())
        optimizer.step()
        optimizer.zero_grad()
        if notes.num_steps == ASKED.saved:
            accelerator.save_state(ASKED.folder)
            (ASKED.folder / "epoch").write_text(str(number + batches.end_of_dataloader))
accelerator.end_training()
