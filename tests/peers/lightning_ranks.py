"""A rank of Lightning that trains on its share, from the last checkpoint on."""

import os

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

from tests.peers import made
from tests.peers.rank import Asked, Notes
from trainfeed import adapters

ASKED = Asked.of_argv()


class Module(lightning.LightningModule):
    """Notes the samples that it is trained on."""

    def __init__(self):
        super().__init__()
        self.weights = torch.nn.Linear(4, 1)

    def train_dataloader(self):
        rank, world_size = self.trainer.global_rank, self.trainer.world_size
        return adapters.torch(made.loader(ASKED.path, rank, world_size))

    def on_fit_start(self):
        self.notes = Notes(ASKED, self.trainer.global_rank)

    def training_step(self, batch, _):
        self.notes.add(batch["id"].tolist())
        return (self.weights(batch["x"])[:, 0] - batch["label"]).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


lightning.Trainer(
    accelerator="cpu",
    devices=int(os.environ["LOCAL_WORLD_SIZE"]),
    strategy="ddp",
    max_epochs=2,
    callbacks=[ModelCheckpoint(ASKED.folder, every_n_train_steps=ASKED.saved, save_last=True)],
    logger=False,
    enable_progress_bar=False,
    enable_model_summary=False,
).fit(Module(), ckpt_path="last")
