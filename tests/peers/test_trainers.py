"""Trainers of Lightning and of Hugging Face: every sample once, and exact after a crash."""

import lightning
import pytest
import torch
import transformers
from lightning.pytorch.callbacks import ModelCheckpoint
from transformers.trainer_utils import get_last_checkpoint

from tests.peers import made
from trainfeed import adapters
from trainfeed.errors import ConfigError

# The step after which a state is saved, and the one at which a run dies: in the first epoch, at
# its end, and in the second one.
PLACES = [(11, 15), (32, 40), (43, 50)]
EPOCHS = 2


class DiedError(Exception):
    """What ends a run."""


class Module(lightning.LightningModule):
    """Notes the samples that it is trained on."""

    def __init__(self, path, wire, dies_at=None):
        super().__init__()
        self.weights = torch.nn.Linear(4, 1)
        self.path, self.wire, self.dies_at, self.seen = path, wire, dies_at, []

    def train_dataloader(self):
        return self.wire(made.loader(self.path))

    def training_step(self, batch, _):
        self.seen += batch["id"].tolist()
        if len(self.trainer.callbacks) and self.global_step + 1 == self.dies_at:
            raise DiedError
        return (self.weights(torch.as_tensor(batch["x"]))[:, 0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def fit(module, folder, every=1000, ckpt_path=None):
    lightning.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=EPOCHS,
        callbacks=[ModelCheckpoint(folder, every_n_train_steps=every, save_last=True)],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    ).fit(module, ckpt_path=ckpt_path)
    return module.seen


@pytest.mark.parametrize("wire", [adapters.torch, lambda loader: loader], ids=["adapter", "loader"])
@pytest.mark.parametrize(("saved", "dies_at"), PLACES)
def test_lightning_goes_on_exactly(path, tmp_path, wire, saved, dies_at):
    assert fit(Module(path, wire), tmp_path / "whole") == made.order(path, EPOCHS)
    with pytest.raises(DiedError):
        fit(Module(path, wire, dies_at), tmp_path / "cut", saved)
    rest = fit(Module(path, wire), tmp_path / "cut", saved, tmp_path / "cut/last.ckpt")
    assert rest == made.order(path, EPOCHS, of_step=saved)


class Model(torch.nn.Module):
    """Notes the samples that it is trained on."""

    def __init__(self, dies_at=None):
        super().__init__()
        self.weights = torch.nn.Linear(4, 1)
        self.dies_at, self.seen, self.steps = dies_at, [], 0

    def forward(self, id, x, label):  # noqa: A002 - the field's name
        self.steps += 1
        if self.steps == self.dies_at:
            raise DiedError
        self.seen += id.tolist()
        return {"loss": (self.weights(x)[:, 0] - label).square().mean()}


class Trainer(transformers.Trainer):
    """A trainer whose batches are those of a wiring."""

    wire = None

    def get_train_dataloader(self):
        return self.wire()


def train(model, folder, wire, every=1000, go_on=False):
    settings = transformers.TrainingArguments(
        str(folder),
        num_train_epochs=EPOCHS,
        save_steps=every,
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
    )
    trainer = Trainer(model=model, args=settings)
    trainer.wire = lambda: wire(trainer)
    trainer.train(resume_from_checkpoint=get_last_checkpoint(str(folder)) if go_on else None)
    return model.seen


@pytest.mark.parametrize(("saved", "dies_at"), PLACES)
def test_the_trainer_goes_on_exactly(path, tmp_path, saved, dies_at):
    def wire(trainer):
        return adapters.accelerate(made.loader(path), trainer.accelerator)

    assert train(Model(), tmp_path / "whole", wire) == made.order(path, EPOCHS)
    with pytest.raises(DiedError):
        train(Model(dies_at), tmp_path / "cut", wire, saved)
    rest = train(Model(), tmp_path / "cut", wire, saved, go_on=True)
    assert rest == made.order(path, EPOCHS, of_step=saved)


def test_the_trainer_refuses_the_adapter_as_a_data_set(path, tmp_path):
    settings = transformers.TrainingArguments(
        str(tmp_path), num_train_epochs=1, max_steps=3, use_cpu=True, report_to="none"
    )
    batches = adapters.torch(made.loader(path))
    trainer = transformers.Trainer(model=Model(), args=settings, train_dataset=batches)
    with pytest.raises(ConfigError, match=r"get_train_dataloader return trainfeed\.adapters"):
        trainer.train()


def test_the_bare_adapter_is_right_for_the_trainer_or_says_what_to_write(path, tmp_path):
    """Whole runs are right; one that goes on within an epoch would need to skip batches."""

    def bare(_):
        return adapters.torch(made.loader(path))

    assert train(Model(), tmp_path / "whole", bare) == made.order(path, EPOCHS)
    with pytest.raises(DiedError):
        train(Model(15), tmp_path / "cut", bare, 11)
    with pytest.raises(AttributeError, match=r"return trainfeed\.adapters\.accelerate"):
        train(Model(), tmp_path / "cut", bare, 11, go_on=True)
