"""Trainings, tests and predictions of an ``Entry`` with PaddlePaddle, pass by pass."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trainfeed.compat._framework import paddle
from trainfeed.compat.plsc.checkpoints import (
    CheckpointNote,
    Saved,
    newest_checkpoint,
    remove_unfinished,
    save_checkpoint,
)
from trainfeed.compat.plsc.classifier import Classifier, Ranks, learning_rate
from trainfeed.compat.plsc.settings import Report
from trainfeed.errors import ConfigError, SampleShapeError

if TYPE_CHECKING:
    from trainfeed.compat.plsc.entry_readers import CustomReader, ImageBatch, Readers
    from trainfeed.compat.plsc.settings import EntrySettings


# --- The passes of a training: steps of all ranks, then a checkpoint and a test

logger = logging.getLogger(__name__)


@dataclass
class Training:
    """A training from a place on; the attributes say how far it has come.

    Attributes:
        classifier: The classifier.
        readers: The readers of this rank.
        epoch: Number of the next pass.
        step: Number of the next step, over all passes.
        losses: Loss of each step since the start of this object.
        accuracies: Name of a test set → accuracy, from 0 to 1, of the last test.
        checkpoint: Folder of the newest checkpoint; None before the first.
    """

    classifier: Classifier
    readers: Readers
    epoch: int = 0
    step: int = 0
    losses: list[float] = field(default_factory=list)
    accuracies: Mapping[str, float] = field(default_factory=dict)
    checkpoint: Path | None = None

    def run(self) -> None:
        """Train all passes that remain.

        Raises:
            ConfigError: A pass has no batch, the ranks have different numbers of batches, or a
                loss is not finite.
            JobKilledError: Another rank has ended.
            SampleShapeError: Images or labels do not fit the settings.
            StorageError: A checkpoint could not be saved.
        """
        while self.epoch < self._settings.train_epochs:
            self._train_pass()
            self.epoch += 1
            self.classifier.share_statistics()
            if self._settings.model_save_dir is not None:
                self.checkpoint = self._save(self._settings.model_save_dir)
            if self._settings.with_test:
                self.accuracies = {
                    name: accuracy(self.classifier, reader)
                    for name, reader in self.readers.tests.items()
                }
                logger.info("pass %d: accuracy %s", self.epoch - 1, dict(self.accuracies))

    @property
    def _settings(self) -> EntrySettings:
        return self.classifier.settings

    @property
    def _ranks(self) -> Ranks:
        return self.classifier.ranks

    def _train_pass(self) -> None:
        reader = self.readers.train
        if reader is None:
            raise ConfigError("expected a reader of training data, got none; nothing was trained")
        begun, num_samples, before = time.perf_counter(), 0, self.step
        for batch, counts in in_step(reader, self._ranks, self.epoch):
            if batch is None or not all(counts):
                raise self._uneven(counts)
            top = self._top(batch, counts) if self._is_logged() else ""
            self.losses.append(self.classifier.step(batch, counts, self.step))
            num_samples += sum(counts)
            if self._is_logged():
                speed = num_samples / (time.perf_counter() - begun)
                self._log(speed, top)
            self.step += 1
        if self.step == before:
            raise ConfigError(
                f"expected at least one batch in pass {self.epoch}, got none; checkpoints of"
                " earlier passes are kept; look at train_reader, or at the data folder"
            )

    def _is_logged(self) -> bool:
        return self.step % self._settings.log_period == 0

    def _log(self, speed: float, top: str) -> None:
        rate = (
            ""
            if self._settings.optimizer
            else (f", learning rate {learning_rate(self._settings, self.step):.8f}")
        )
        logger.info(
            "pass %d, step %d: loss %.6f%s, %.1f images/s%s",
            self.epoch,
            self.step,
            self.losses[-1],
            rate,
            speed,
            top,
        )

    def _top(self, batch: ImageBatch, counts: list[int]) -> str:
        """Return the accuracy of a batch among one and five classes, if it is asked for."""
        if not self._settings.calc_acc:
            return ""
        k = min(5, self._settings.num_classes)
        right = _is_right(self.classifier.top(batch, counts, k), batch)
        first, any_of = right[:, 0].mean(), right.any(1).mean()
        return f", accuracy {first:.4f}, among {k}: {any_of:.4f}"

    def _uneven(self, counts: list[int]) -> ConfigError:
        ended = [rank for rank, count in enumerate(counts) if not count]
        return ConfigError(
            f"expected as many batches on each of {self._ranks.world_size} ranks, got ranks"
            f" {ended} at their end before the others at step {self.step}; checkpoints of earlier"
            " passes are kept; give each rank as many samples, as the readers of"
            " trainfeed.compat.plsc.readers do"
        )

    def _save(self, folder: Path) -> Path:
        settings, (network, head) = self._settings, self.classifier.arrays()
        note = CheckpointNote(
            epoch=self.epoch,
            step=self.step,
            loss_type=settings.loss_type.value,
            emb_dim=self.classifier.emb_dim,
            num_classes=settings.num_classes,
            pretrain_nranks=settings.world_size,
            scheduler=self.classifier.scheduler_state(),
        )
        return save_checkpoint(folder, note, network, head, self._ranks)


def accuracy(classifier: Classifier, reader: CustomReader) -> float:
    """Return the share of images whose most likely class is their label, over all ranks.

    Raises:
        ConfigError: There is no image.
        SampleShapeError: There are images without labels.
    """
    right = total = 0
    for batch, counts in in_step(reader, classifier.ranks, 0):
        top = classifier.top(batch, counts, 1)
        if batch is not None:
            right += int(_is_right(top, batch).sum())
            total += len(batch.images)
    right, total = (sum(classifier.ranks.counts(number)) for number in (right, total))
    if not total:
        raise ConfigError("expected images with labels to test on, got none; look at test_reader")
    return right / total


def in_step(
    reader: CustomReader, ranks: Ranks, epoch: int
) -> Iterator[tuple[ImageBatch | None, list[int]]]:
    """Yield the batch of this rank and the number of samples of each rank, until all have ended.

    The batch of a rank that has ended before others is None, and its number 0.
    """
    batches = reader.batches(epoch)
    while True:
        batch = next(batches, None)
        counts = ranks.counts(0 if batch is None else len(batch.images))
        if not any(counts):
            return
        yield batch, counts


def _is_right(top: np.ndarray, batch: ImageBatch) -> np.ndarray:
    if batch.labels is None:
        raise SampleShapeError("expected a label for each image, got images only")
    return top == batch.labels[:, None]  # type: ignore[no-any-return]


# --- Training, tests and predictions of an ``Entry`` with PaddlePaddle on the CPU


def train(settings: EntrySettings, readers: Readers) -> Report:
    """Train, and test after each pass if ``settings.with_test`` says so.

    A training with ``checkpoint_dir`` continues the one that saved the checkpoint: with equal
    settings its losses are those of a training that was never stopped. If all of its passes are in
    ``model_save_dir``, and that folder is to be uploaded, nothing is trained: the upload failed.

    Raises:
        ConfigError: The checkpoint is of another model, or of a training that has ended.
        JobKilledError: Another rank has ended.
        NotFoundError: ``checkpoint_dir`` has no checkpoint.
    """
    with _session(settings) as ranks:
        classifier = Classifier.made(settings, ranks, trains=True, head=True)
        training = Training(classifier, readers)
        if settings.checkpoint_dir is not None:
            _continue(training, _read(settings, ranks))
        begun = training.epoch
        training.run()
        return Report(
            epochs=training.epoch - begun,
            steps=len(training.losses),
            losses=tuple(training.losses),
            accuracies=training.accuracies,
            checkpoint=training.checkpoint,
        )


def test(settings: EntrySettings, readers: Readers) -> Report:
    """Measure the accuracy of the model of ``settings.checkpoint_dir`` on each test reader.

    Raises:
        ConfigError: There is no checkpoint_dir, no test reader, or the model is another one.
        NotFoundError: ``checkpoint_dir`` has no checkpoint.
    """
    if not readers.tests:
        raise ConfigError("expected a test reader, got none; set test_reader")
    with _session(settings) as ranks:
        saved = _read(settings, ranks)
        classifier = Classifier.made(settings, ranks, trains=False, head=True)
        _load(classifier, saved)
        measured = {name: accuracy(classifier, reader) for name, reader in readers.tests.items()}
    logger.info("accuracy %s of %s", measured, saved.path)
    return Report(accuracies=measured, checkpoint=saved.path)


def predict(settings: EntrySettings, readers: Readers) -> Report:
    """Compute the embedding of each image of the predict reader, in its order.

    The embeddings of all images are in memory: ``4 * emb_dim`` bytes for each.

    Raises:
        ConfigError: There is no checkpoint_dir, no predict reader, no image, or the model is
            another one.
        NotFoundError: ``checkpoint_dir`` has no checkpoint.
    """
    if readers.predict is None:
        raise ConfigError("expected a predict reader, got none; set predict_reader")
    with _session(settings) as ranks, paddle().no_grad():
        saved = _read(settings, ranks)
        classifier = Classifier.made(settings, ranks, trains=False, head=False)
        _load(classifier, saved)
        parts = [classifier.embed(batch).numpy() for batch in readers.predict.batches(0)]
    if not parts:
        raise ConfigError("expected images to predict, got none; look at predict_reader")
    return Report(embeddings=np.concatenate(parts), checkpoint=saved.path)


def convert_for_prediction(settings: EntrySettings) -> Report:
    """Save the network of ``settings.checkpoint_dir`` without head and optimizer.

    The folder is ``model_save_dir/<pass>``; ``predict`` takes it as ``checkpoint_dir``.

    Raises:
        ConfigError: There is no checkpoint_dir or model_save_dir, or both are one folder.
        NotFoundError: ``checkpoint_dir`` has no checkpoint.
    """
    target = settings.model_save_dir
    with _session(settings) as ranks:
        saved = _read(settings, ranks)
        if target is None or target.resolve() in {
            saved.path.resolve(),
            saved.path.parent.resolve(),
        }:
            raise ConfigError(
                f"expected a model_save_dir other than the folder of the checkpoint {saved.path},"
                f" got {target}; nothing was saved; call set_model_save_dir"
            )
        classifier = Classifier.made(settings, ranks, trains=False, head=False)
        _load(classifier, saved)
        network = {**classifier.network.parameters, **classifier.network.statistics}
        values = {name: value.numpy() for name, value in network.items()}
        note = CheckpointNote(**{**vars(saved.note), "loss_type": "", "scheduler": {}})
        return Report(checkpoint=save_checkpoint(target, note, values, None, ranks))


@contextmanager
def _session(settings: EntrySettings) -> Iterator[Ranks]:
    """Connect the ranks; names of parameters begin at 0 in the block."""
    paddle().disable_static()
    paddle().set_device("cpu")
    ranks = Ranks(settings.rank, settings.world_size)
    ranks.connect()
    with paddle().utils.unique_name.guard():
        yield ranks


def _read(settings: EntrySettings, ranks: Ranks) -> Saved:
    """Read the checkpoint of the settings; all ranks must find the same."""
    if settings.checkpoint_dir is None:
        raise ConfigError("expected a checkpoint, got none; call set_checkpoint_dir first")
    saved = newest_checkpoint(settings.checkpoint_dir)
    if len(epochs := set(ranks.counts(saved.note.epoch))) != 1:
        raise ConfigError(
            f"expected one checkpoint on all ranks, got those of passes"
            f" {sorted(epoch - 1 for epoch in epochs)}; nothing was trained; set checkpoint_dir to"
            " a folder that all machines share"
        )
    return saved


def _continue(training: Training, saved: Saved) -> None:
    settings, note = training.classifier.settings, saved.note
    if note.epoch >= settings.train_epochs and not _is_to_upload(settings, saved):
        raise ConfigError(
            f"expected fewer than {settings.train_epochs} trained passes in {saved.path}, got"
            f" {note.epoch}; nothing was trained; raise set_train_epochs, or train without"
            " checkpoint_dir"
        )
    _load(training.classifier, saved)
    training.epoch, training.step = note.epoch, note.step
    if note.epoch == settings.train_epochs:
        training.checkpoint = saved.path
        remove_unfinished(saved.path.parent, training.classifier.ranks)
        logger.info("no pass of %s is left to train; the model is uploaded", saved.path.parent)
        return
    logger.info("continuing %s at pass %d, step %d", saved.path, note.epoch, note.step)


def _is_to_upload(settings: EntrySettings, saved: Saved) -> bool:
    """Return whether a checkpoint ends this training, and only the upload of it is missing."""
    folder = settings.model_save_dir
    if settings.hdfs is None or settings.hdfs.save is None or folder is None:
        return False
    is_own = saved.path.parent.resolve() == folder.resolve()
    return is_own and saved.note.epoch == settings.train_epochs


def _load(classifier: Classifier, saved: Saved) -> None:
    """Take the values of a checkpoint; a divided head may have been whole, and the reverse."""
    settings, note, head = classifier.settings, saved.note, classifier.head
    expected: dict[str, object] = {"emb_dim": classifier.emb_dim}
    got: dict[str, object] = {"emb_dim": note.emb_dim}
    if head is not None:
        expected |= {
            "num_classes": settings.num_classes,
            "loss_type": settings.loss_type.value.removeprefix("dist_"),
        }
        got |= {"num_classes": note.num_classes, "loss_type": note.loss_type.removeprefix("dist_")}
    if expected != got:
        raise ConfigError(
            f"expected a checkpoint of {expected}, got {got} in {saved.path}; nothing was trained"
            " or computed; set the model, the classes and the loss type of the checkpoint"
        )
    classifier.load(saved.arrays(*(head.classes if head is not None else (0, 0))), note.scheduler)
