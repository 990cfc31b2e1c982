"""A rank of the Trainer of Hugging Face that trains on its share, from the last checkpoint on."""

import torch
import transformers
from transformers.trainer_utils import get_last_checkpoint

from tests.peers import made
from tests.peers.rank import Asked, Notes
from trainfeed import adapters

ASKED = Asked.of_argv()


class Model(torch.nn.Module):
    """Notes the samples that it is trained on."""

    def __init__(self):
        super().__init__()
        self.weights = torch.nn.Linear(4, 1)

    def forward(self, id, x, label):  # noqa: A002 - the field's name
        self.notes.add(id.tolist())
        return {"loss": (self.weights(x)[:, 0] - label).square().mean()}


class Trainer(transformers.Trainer):
    """Reads the share of its rank."""

    def get_train_dataloader(self):
        loader = made.loader(ASKED.path, self.args.process_index, self.args.world_size)
        return adapters.accelerate(loader, self.accelerator)


settings = transformers.TrainingArguments(
    str(ASKED.folder),
    num_train_epochs=2,
    save_steps=ASKED.saved,
    use_cpu=True,
    report_to="none",
    disable_tqdm=True,
)
model = Model()
trainer = Trainer(model=model, args=settings)
model.notes = Notes(ASKED, settings.process_index)
trainer.train(resume_from_checkpoint=get_last_checkpoint(str(ASKED.folder)))
