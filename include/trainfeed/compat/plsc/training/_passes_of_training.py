"""The passes of a training: steps of all ranks, then a checkpoint and a test."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trainfeed.compat.plsc.training._learning_rate import learning_rate
from trainfeed.compat.plsc.training._save_pass import save_checkpoint
from trainfeed.compat.plsc.training._saved_passes import CheckpointNote
from trainfeed.errors import ConfigError, SampleShapeError

if TYPE_CHECKING:
    from trainfeed.compat.plsc._custom_reader import CustomReader
    from trainfeed.compat.plsc._readers_of_entry import Readers
    from trainfeed.compat.plsc._sample_form import ImageBatch
    from trainfeed.compat.plsc._settings import EntrySettings
    from trainfeed.compat.plsc.training._classifier import Classifier
    from trainfeed.compat.plsc.training._ranks import Ranks

__all__ = ["Training", "accuracy", "in_step"]

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
