"""Training, tests and predictions of an ``Entry`` with PaddlePaddle on the CPU."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from trainfeed.compat._framework import paddle
from trainfeed.compat.plsc._report import Report
from trainfeed.compat.plsc.training import (
    CheckpointNote,
    Classifier,
    Ranks,
    Saved,
    Training,
    accuracy,
    newest_checkpoint,
    remove_unfinished,
    save_checkpoint,
)
from trainfeed.errors import ConfigError

if TYPE_CHECKING:
    from trainfeed.compat.plsc._readers_of_entry import Readers
    from trainfeed.compat.plsc._settings import EntrySettings

__all__ = ["convert_for_prediction", "predict", "test", "train"]

logger = logging.getLogger(__name__)


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
